-- Where in its file a tailed line stands: what the tail input does not say, or not exactly.

local bit = require("bit")
local text = require("text")

local files = {}

local BLOCK_BYTES = 65536
-- The tail inputs keep at least so much of a line.
local UNCUT_BYTES = 512 * 1024

-- Fingerprint of a file: FNV-1a over its first line's first 1024 bytes, 64 bits as 16 hex digits.
-- 32 bits would give two of a fleet's hundred thousand logs the same name.
local function generation_of(first_line)
  local value = 0xcbf29ce484222325ULL
  for _, byte in ipairs({ text.without_terminator(first_line):sub(1, 1024):byte(1, -1) }) do
    value = bit.bxor(value, byte) * 0x100000001b3ULL
  end
  return bit.tohex(value)
end

-- A file's line from an offset on, with its \n if it has one yet; empty if it cannot be read.
local function read_line(path, offset)
  local file = io.open(path, "rb")
  if not file then return "" end
  file:seek("set", offset)
  local blocks = {}
  repeat
    local block = file:read(BLOCK_BYTES) or ""
    local at = block:find("\n", 1, true)
    blocks[#blocks + 1] = at and block:sub(1, at) or block
  until at or block == ""
  file:close()
  return table.concat(blocks)
end

-- A file that was rotated is read to its end under the name that its successor has already taken,
-- so of every path the two latest are remembered, each as {value, …, before = the older one}.
function files.remember(memory, path, fresh)
  fresh.before = memory[path]
  if fresh.before then fresh.before.before = nil end
  memory[path] = fresh
  return fresh
end

local places = {} -- path → {next_offset, generation}

local function known_place(path, offset)
  local place = places[path]
  if place and place.next_offset ~= offset then place = place.before end
  return place and place.next_offset == offset and place or nil
end

-- How many NULs stand before an offset: the tail input skips those where it begins to read.
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

-- A line from the tail input: with the NULs skipped before it, the generation of its file, its
-- offset, and its bytes with the terminator.
function files.place(path, offset, line)
  local place = known_place(path, offset)
  if offset > 0 and not place then
    local nuls = nuls_before(path, offset)
    offset, line = offset - nuls, ("\0"):rep(nuls) .. line
    place = known_place(path, offset)
  end
  if offset == 0 then
    place = files.remember(places, path, { generation = generation_of(line) })
  elseif not place then -- Fluent Bit was started again: it goes on where it was
    place = files.remember(places, path, { generation = generation_of(read_line(path, 0)) })
  end
  local line_bytes = #line + 1
  if #line >= UNCUT_BYTES then
    local whole = read_line(path, offset)
    if whole:sub(1, #line) == line then line_bytes = math.max(line_bytes, #whole) end
  end
  place.next_offset = offset + line_bytes
  return line, place.generation, offset, line_bytes
end

return files
