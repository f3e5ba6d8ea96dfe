-- Converts the bytes of a line to text: without its terminator, UTF-8, at most 64 KiB.

local text = {}

text.MAX_LINE_BYTES = 64 * 1024
text.LONG_NAME = "name of the host or VM longer than 255 bytes"
local MAX_NAME_BYTES = 255

-- Returns true if the name of a host or VM is longer than DNS and file systems allow.
function text.is_long_name(name) return name ~= nil and #name > MAX_NAME_BYTES end

-- Returns the line without its terminator (\n, with the \r and NULs before it), and without NULs at
-- its beginning.
function text.without_terminator(line)
  local last = #line
  while last > 0 and ("\r\n\0"):find(line:sub(last, last), 1, true) do last = last - 1 end
  return line:sub(line:find("%Z") or 1, last)
end

-- By the first byte of a UTF-8 sequence: how many bytes follow, and the range of the second byte.
local SEQUENCES = {}
for byte = 0xC2, 0xDF do SEQUENCES[byte] = { 1, 0x80, 0xBF } end
for byte = 0xE0, 0xEF do SEQUENCES[byte] = { 2, 0x80, 0xBF } end
for byte = 0xF0, 0xF4 do SEQUENCES[byte] = { 3, 0x80, 0xBF } end
SEQUENCES[0xE0][2], SEQUENCES[0xED][3] = 0xA0, 0x9F -- no overlong forms, no surrogates
SEQUENCES[0xF0][2], SEQUENCES[0xF4][3] = 0x90, 0x8F -- nor what lies beyond Unicode

-- Returns where a line stops being UTF-8, and true if only its end is missing. nil if it is UTF-8.
local function first_fault(line)
  local at = line:find("[\128-\255]")
  while at do
    local sequence = SEQUENCES[line:byte(at)]
    if not sequence then return at, false end
    for number = 1, sequence[1] do
      local byte = line:byte(at + number)
      if not byte then return at, true end
      local lowest, highest = 0x80, 0xBF
      if number == 1 then lowest, highest = sequence[2], sequence[3] end
      if byte < lowest or byte > highest then return at, false end
    end
    at = line:find("[\128-\255]", at + sequence[1] + 1)
  end
  return nil
end

local function from_latin1(line)
  return (line:gsub("[\128-\255]", function(character)
    local code = character:byte()
    return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64)
  end))
end

text.BYTE_ORDER_MARK = "\239\187\191"

-- Decodes as UTF-8; if that fails, decodes the whole line as latin-1 so that no byte is lost.
-- A byte order mark at the beginning, which Windows programs write, is dropped.
function text.decode(line)
  if line:sub(1, 3) == text.BYTE_ORDER_MARK and not first_fault(line) then return line:sub(4) end
  return first_fault(line) and from_latin1(line) or line
end

-- Cuts to at most MAX_LINE_BYTES, without splitting a UTF-8 character.
function text.cut(line)
  if #line <= text.MAX_LINE_BYTES then return line end
  local kept = line:sub(1, text.MAX_LINE_BYTES)
  local at, is_end_missing = first_fault(kept)
  return is_end_missing and kept:sub(1, at - 1) or kept
end

local FORM_LENGTH = 300
-- Reasons for rejecting a line, by how it begins. The first that matches counts.
local FORMS = {
  { '^%[?{ *"', "JSON instead of a log line" },
  { "^%[?{ *$", "JSON instead of a log line" },
  { "^\27%[", "colour codes before the line" },
  { "^%d[%d:./TZ+ -]*\t", "tab-separated values instead of a log line" },
  { '^"[^"]*",', "comma-separated values instead of a log line" },
  { "^%d[%d:./TZ+ -]*,[^%d]", "comma-separated values instead of a log line" },
  { "^[^%[(]-%d%d:%d%d:%d%d[^%[(]-%d%d:%d%d:%d%d",
    "two timestamps, as from a syslog relay, before an unknown line format" },
}

-- Returns why no pattern matches a line, as far as its beginning shows.
function text.reason_of(line)
  if line:find("%z") then return "binary data" end
  local beginning = line:sub(1, FORM_LENGTH)
  for _, form in ipairs(FORMS) do
    if beginning:find(form[1]) then return form[2] end
  end
  return "unknown line format"
end

return text
