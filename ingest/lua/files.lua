-- The offset of a tailed line in its file, which the tail input does not report exactly or at all.

local bit = require("bit")
local recent = require("recent")
local text = require("text")

local files = {}

local BLOCK_BYTES = 65536
-- The tail inputs keep at least this many bytes of a line.
local UNCUT_BYTES = 512 * 1024
-- Of a longer first line, only the beginning counts (ingest/records.py).
local FIRST_LINE_BYTES = 256 * 1024
-- If a file's state was removed from memory, it is read from the file again.
local MOST_FILES = 20000

-- Fingerprint of a file: FNV-1a of its first line's first 1024 bytes, 64 bits as 16 hex digits.
-- With 32 bits, two of a fleet's hundred thousand logs would collide.
local function generation_of(first_line)
  local value = 0xcbf29ce484222325ULL
  local from = first_line:find("%Z") or 1
  local head = first_line:sub(from, from + FIRST_LINE_BYTES - 1)
  head = text.without_terminator(head):sub(1, 1024)
  for _, byte in ipairs({ head:byte(1, -1) }) do
    value = bit.bxor(value, byte) * 0x100000001b3ULL
  end
  return bit.tohex(value)
end

-- Returns the first `most` bytes of the line at an offset of a file, and the length of the line. Both
-- include its \n if it has one. Empty and 0 if it cannot be read.
local function read_line(path, offset, most)
  local file = io.open(path, "rb")
  if not file then return "", 0 end
  file:seek("set", offset)
  local blocks, length = {}, 0
  repeat
    local block = file:read(BLOCK_BYTES) or ""
    local at = block:find("\n", 1, true)
    block = at and block:sub(1, at) or block
    if length < most then blocks[#blocks + 1] = block end
    length = length + #block
  until at or block == ""
  file:close()
  return table.concat(blocks):sub(1, most), length
end

-- Returns the beginning of the first line of a file, without the NULs before it: a log that was copied
-- and truncated while it was written begins with NULs up to its old length.
local function first_line_of(path)
  local file = io.open(path, "rb")
  if not file then return "" end
  local nuls = 0
  repeat
    local block = file:read(BLOCK_BYTES) or ""
    local at = block:find("%Z")
    nuls = nuls + (at and at - 1 or #block)
  until at or block == ""
  file:close()
  return (read_line(path, nuls, FIRST_LINE_BYTES))
end

-- After a rotation, the tail input reads the old file to its end under a path that the new file
-- already has. So the two latest values are kept per path: {value, …, before = the older one}.
function files.memory() return recent.new(MOST_FILES) end

function files.remember(memory, path, fresh)
  fresh.before = recent.get(memory, path)
  if fresh.before then fresh.before.before = nil end
  recent.put(memory, path, fresh)
  return fresh
end

files.recall = recent.get

local places = files.memory() -- path → {next_offset, generation}

local function known_place(path, offset)
  local place = files.recall(places, path)
  if place and place.next_offset ~= offset then place = place.before end
  return place and place.next_offset == offset and place or nil
end

-- Returns the number of NULs before an offset: the tail input skips those where it starts reading.
local function nuls_before(path, offset)
  local file = io.open(path, "rb")
  if not file then return 0 end
  local nuls, is_end = 0, false
  while not is_end and nuls < offset do
    local size = math.min(BLOCK_BYTES, offset - nuls)
    file:seek("set", offset - nuls - size)
    local block = file:read(size) or ""
    local at = #block
    while at > 0 and block:byte(at) == 0 do at = at - 1 end
    nuls, is_end = nuls + #block - at, at > 0 or block == ""
  end
  file:close()
  return nuls
end

-- Returns the generation of the file of a line from the tail input, the line's offset, and its length
-- in bytes, with the terminator and the NULs before it.
function files.place(path, offset, line)
  local place, nuls = known_place(path, offset), 0
  if offset > 0 and not place then
    nuls = nuls_before(path, offset)
    offset = offset - nuls
    place = known_place(path, offset)
  end
  if offset == 0 or not place then -- a new file, or Fluent Bit was started again and goes on
    local first_line = offset == 0 and line or first_line_of(path)
    place = files.remember(places, path, { generation = generation_of(first_line) })
  end
  local line_bytes = #line + 1
  if #line >= UNCUT_BYTES then
    local whole, length = read_line(path, offset + nuls, #line)
    if whole == line then line_bytes = math.max(line_bytes, length) end
  end
  line_bytes = nuls + line_bytes
  place.next_offset = offset + line_bytes
  return place.generation, offset, line_bytes
end

-- Returns datastore and VM of a tailed path, or nothing. The same rule as in ingest/vm_paths.py:
-- below vmfs/volumes/ the first folder and the last, elsewhere the last two.
function files.vm_of(path)
  path = "/" .. path:gsub("//+", "/")
  local below = path:match("^.*/vmfs/volumes/(.*)$")
  if not below then return path:match("([^/]+)/([^/]+)/[^/]+$") end
  local datastore, rest = below:match("^([^/]+)/(.+)$")
  local vm = rest and rest:match("([^/]+)/[^/]+$")
  if vm then return datastore, vm end
end

return files
