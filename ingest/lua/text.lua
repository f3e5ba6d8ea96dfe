-- The bytes of a line become text: without its terminator, UTF-8, at most 256 KiB.

local text = {}

text.MAX_LINE_BYTES = 256 * 1024

-- A line without what ends it: \n, with the \r and NULs before it.
function text.without_terminator(line)
  local last = #line
  while last > 0 and ("\r\n\0"):find(line:sub(last, last), 1, true) do last = last - 1 end
  return line:sub(1, last)
end

-- For each first byte of a UTF-8 sequence: how many follow, and the range of the second.
local SEQUENCES = {}
for byte = 0xC2, 0xDF do SEQUENCES[byte] = { 1, 0x80, 0xBF } end
for byte = 0xE0, 0xEF do SEQUENCES[byte] = { 2, 0x80, 0xBF } end
for byte = 0xF0, 0xF4 do SEQUENCES[byte] = { 3, 0x80, 0xBF } end
SEQUENCES[0xE0][2], SEQUENCES[0xED][3] = 0xA0, 0x9F -- no overlong forms, no surrogates
SEQUENCES[0xF0][2], SEQUENCES[0xF4][3] = 0x90, 0x8F -- nor what lies beyond Unicode

-- Where a line stops being UTF-8, and whether only because its end is missing. nil if it is UTF-8.
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

-- What is not UTF-8 is read as latin-1, the whole line, so that no byte is lost.
function text.decode(line)
  return first_fault(line) and from_latin1(line) or line
end

-- At most MAX_LINE_BYTES; if they are UTF-8, they end with a whole character.
function text.cut(line)
  if #line <= text.MAX_LINE_BYTES then return line end
  local kept = line:sub(1, text.MAX_LINE_BYTES)
  local at, is_end_missing = first_fault(kept)
  return is_end_missing and kept:sub(1, at - 1) or kept
end

return text
