-- Converts a row of esxtop's batch CSV to the samples of its objects (schemas/esxtop_row.v1), by the
-- rules of ingest/replay/esxtop.py.
--
-- Example Input:
--   {file = "/esxtop/esx01/night.csv", offset = 2658, line = '"02/03/2024 04:05:06","3.5","0.1"'}
-- Example Output, for the header
--   "(PDH-CSV 4.0) (UTC)(0)","\\esx01\Physical Disk SCSI Device(naa.6001)\Average Driver MilliSec/…:
--   {{topic = "esxi.esxtop", key = "esx01",
--     value = '{"event_time":"2024-02-03T04:05:06Z",…,"devices":["naa.6001"],
--       "measures":{"davg_ms":[3.5]},…}'}, …}

package.path = debug.getinfo(1, "S").source:match("^@(.*)esxtop.lua$") .. "?.lua;" .. package.path
local files = require("files")
local message = require("message")
local text = require("text")
local times = require("times")

local DROP, CHANGED = -1, 2 -- what a Lua filter answers

local OBJECT_CLASSES = {
  ["Physical Disk SCSI Device"] = "scsi_device",
  ["Physical Disk Adapter"] = "adapter",
  ["Physical Disk Path"] = "path",
  ["Physical Disk Per-Device-Per-World"] = "device_world",
  ["Physical Disk NFS Volume"] = "nfs_volume",
  ["Physical Disk"] = "disk", -- before ESXi 5
  ["Virtual Disk"] = "virtual_disk",
}
local COUNTERS = {
  ["Average Driver MilliSec/Command"] = "davg_ms",
  ["Average Kernel MilliSec/Command"] = "kavg_ms",
  ["Average Guest MilliSec/Command"] = "gavg_ms",
  ["Average Queue MilliSec/Command"] = "qavg_ms",
  ["Average Driver MilliSec/Read"] = "davg_read_ms",
  ["Average Driver MilliSec/Write"] = "davg_write_ms",
  ["Average Guest MilliSec/Read"] = "gavg_read_ms",
  ["Average Guest MilliSec/Write"] = "gavg_write_ms",
  -- counters of a virtual disk, as the guest sees them
  ["Average MilliSec/Read"] = "gavg_read_ms",
  ["Average MilliSec/Write"] = "gavg_write_ms",
  ["Commands/sec"] = "commands_per_second",
  ["Reads/sec"] = "reads_per_second",
  ["Writes/sec"] = "writes_per_second",
  ["MBytes Read/sec"] = "megabytes_read_per_second",
  ["MBytes Written/sec"] = "megabytes_written_per_second",
  ["Active Commands"] = "active_commands",
  ["Queued Commands"] = "queued_commands",
  ["Failed Reserves/sec"] = "failed_reserves_per_second",
  ["Aborts/sec"] = "aborts_per_second",
  ["Resets/sec"] = "resets_per_second",
}
local FIELDS = {
  "event_time", "received_at", "kind", "source", "host", "object_class", "devices", "measures",
  "file", "generation", "offset", "line_bytes", "run_id", "time_quality",
}
local MEASURES = {
  "davg_ms", "kavg_ms", "gavg_ms", "qavg_ms", "davg_read_ms", "davg_write_ms", "gavg_read_ms",
  "gavg_write_ms", "commands_per_second", "reads_per_second", "writes_per_second",
  "megabytes_read_per_second", "megabytes_written_per_second", "active_commands",
  "queued_commands", "failed_reserves_per_second", "aborts_per_second", "resets_per_second",
}

-- Most objects in one message, and about how long their names are together at most, as in
-- ingest/replay/esxtop.py.
local MOST_OBJECTS = 100
local MOST_NAME_BYTES = 16 * 1024

local function is_header(row)
  if row:sub(1, 3) == text.BYTE_ORDER_MARK then row = row:sub(4) end
  return row:find('^"*%(PDH%-CSV') ~= nil
end

-- Splits at a separator that is plain text, not a pattern.
local function split(row, separator)
  local parts, from = {}, 1
  local at, last = row:find(separator, 1, true)
  while at do
    parts[#parts + 1] = row:sub(from, at - 1)
    from = last + 1
    at, last = row:find(separator, from, true)
  end
  parts[#parts + 1] = row:sub(from)
  return parts
end

-- Returns a row's values without quotes.
local function values_of(row)
  if not row:find('"', 1, true) then return split(row, ",") end
  if #row > 1 and row:find('^".*"$') then return split(row:sub(2, -2), '","') end
  local values = split(row, ",")
  for number, value in ipairs(values) do values[number] = value:match('^"*(.-)"*$') end
  return values
end

-- Returns the names in a header. An instance may contain a comma, or a quote written twice.
local function names_of(row)
  local names, at = {}, 1
  repeat
    local name
    if row:sub(at, at) == '"' then
      local last = at
      repeat -- over each quote that is written twice
        last = row:find('"', last + 1, true) or #row + 1
        local is_twice = row:sub(last + 1, last + 1) == '"'
        if is_twice then last = last + 1 end
      until not is_twice
      name = row:sub(at + 1, last - 1):gsub('""', '"')
      at = row:find(",", last, true)
    else
      local comma = row:find(",", at, true)
      name, at = row:sub(at, (comma or 0) - 1), comma
    end
    names[#names + 1] = name
    at = at and at + 1
  until not at
  return names
end

-- Adds the objects of a class in groups, each for one message.
local function add_groups(groups, class, objects)
  local group, bytes = nil, 0
  for _, object in ipairs(objects) do
    local own = #object.device
    if not group or #group.objects == MOST_OBJECTS or bytes + own > MOST_NAME_BYTES then
      group, bytes = { class = class, objects = {} }, 0
      groups[#groups + 1] = group
    end
    group.objects[#group.objects + 1] = object
    bytes = bytes + own
  end
end

-- Parses a header into a plan for its rows: number of columns, zone, host and groups of objects.
local function plan_of(row, folder)
  local names = names_of(text.decode(row))
  local zone = names[1]:match("^%(PDH%-CSV [%d.]+%) %(.*%)%(([+-]?%d+)%)")
  local plan = { columns = #names, ahead = (tonumber(zone) or 0) * 60, groups = {}, host = folder }
  local objects, is_named = {}, false
  local of_class, classes = {}, {}
  for column, name in ipairs(names) do
    local host = name:match("^\\\\([^\\]+)\\")
    local is_host = host and host ~= "local" and host ~= "localhost" and not text.is_long_name(host)
    if is_host and not is_named then
      plan.host, is_named = message.fuller_host(host, folder), true
    end
    local class, instance, counter = name:match("^\\\\[^\\]*\\([^(\\]+)%((.+)%)\\([^\\]+)$")
    class = OBJECT_CLASSES[class]
    local field = COUNTERS[counter]
    if class and field then
      local id = class .. "\0" .. instance
      if not objects[id] then
        objects[id] = { class = class, device = instance, columns = {} }
        if not of_class[class] then
          of_class[class] = {}
          table.insert(classes, class)
        end
        table.insert(of_class[class], objects[id])
      end
      objects[id].columns[field] = column
    end
  end
  for _, class in ipairs(classes) do add_groups(plan.groups, class, of_class[class]) end
  return plan
end

-- Returns the last header above an offset: a file has several if esxtop was restarted with `>>`.
local function header_above(path, offset)
  local file = io.open(path, "rb")
  local header
  while file and file:seek() < offset do
    local row = file:read("*l")
    if not row then break end
    if is_header(row) then header = row end
  end
  if file then file:close() end
  return text.without_terminator(header or "")
end

local plans = files.memory() -- file → {generation, plan} of its last header

local function header_read(found, row)
  local plan = plan_of(row, found.file:match("([^/]+)/[^/]*$"))
  return files.remember(plans, found.file, { generation = found.generation, plan = plan }).plan
end

local function plan_for(found)
  local known = files.recall(plans, found.file)
  if known and known.generation ~= found.generation then known = known.before end
  if known and known.generation == found.generation then return known.plan end
  return header_read(found, header_above(found.file, found.offset))
end

-- A counter that is negative, infinite or above this has no value (ingest/replay/esxtop.py).
local LARGEST_VALUE = 1e12

local function event_time_of(value, ahead)
  local month, day, year, hour, minute, rest =
    value:match("^(%d%d?)/(%d%d?)/(%d%d%d%d) (%d%d?):(%d%d)(.*)$")
  if not month then return nil end
  local seconds, point, fraction = rest:match("^:(%d%d)(%.?)(%d*)$")
  local is_whole = seconds and tonumber(seconds) < 60 and (point == "") == (fraction == "")
    and #fraction <= 9
  if rest ~= "" and not is_whole then return nil end
  return times.from_parts(ahead, year, month, day, hour, minute, seconds or "00", fraction or "")
end

local function number_of(value)
  local number = not value:find("[xX]") and tonumber(value)
  -- `not a number` fails the comparison >= 0.
  return number and number >= 0 and number <= LARGEST_VALUE and number or nil
end

-- Returns the names of a group's objects and their values, both as JSON; nothing if no column holds a
-- number. An object without any number is left out, and so is a counter that no object has.
local function measured(group, values)
  local devices, lists, known = {}, {}, {}
  for _, field in ipairs(MEASURES) do lists[field] = {} end
  for _, object in ipairs(group.objects) do
    local place = #devices + 1
    for field, column in pairs(object.columns) do
      local number = number_of(values[column])
      if number then
        lists[field][place], known[field] = message.to_json(number), true
        devices[place] = message.to_json(object.device)
      end
    end
  end
  if #devices == 0 then return nil end
  local measures = {}
  for _, field in ipairs(MEASURES) do
    local list = lists[field]
    if known[field] then
      for place = 1, #devices do list[place] = list[place] or "null" end
      measures[#measures + 1] = '"' .. field .. '":[' .. table.concat(list, ",") .. "]"
    end
  end
  return "[" .. table.concat(devices, ",") .. "]", "{" .. table.concat(measures, ",") .. "}"
end

local function messages_of(found, plan, values, event_time, received_at)
  local made = {}
  for _, group in ipairs(plan.groups) do
    local devices, measures = measured(group, values)
    if devices then
      made[#made + 1] = message.of("esxi.esxtop", {
        event_time = event_time, received_at = received_at, kind = "line", source = "esxtop",
        host = plan.host, object_class = group.class, devices = { json = devices },
        measures = { json = measures }, file = found.file, generation = found.generation,
        offset = found.offset, line_bytes = found.line_bytes, run_id = "live",
        time_quality = "exact",
      }, FIELDS)
    end
  end
  return made
end

-- Returns the messages of a row, or its rejection; nothing for a header.
local function make(found, arrival)
  local row = text.without_terminator(found.line)
  if is_header(row) then
    header_read(found, row)
    return nil
  end
  local plan = plan_for(found)
  local values = values_of(row)
  local event_time = event_time_of(values[1], plan.ahead)
  local received_at = times.utc_text(arrival)
  local reason = "no disk counter with a number"
  if #values ~= plan.columns then
    local plural = #values == 1 and "" or "s"
    reason = string.format("%d column%s, but the header has %d", #values, plural, plan.columns)
  elseif not event_time then
    reason = "the first column is not a time"
  else
    local made = messages_of(found, plan, values, event_time, received_at)
    if #made > 0 then return made end
  end
  return message.rejection({
    received_at = received_at, source = "esxtop", host = plan.host, file = found.file,
    generation = found.generation, offset = found.offset, line_bytes = found.line_bytes,
    run_id = "live", line = text.decode(text.cut(row)),
    truncated = #row > text.MAX_LINE_BYTES or nil,
  }, reason)
end

function samples(_, arrival, found)
  found.generation, found.offset, found.line_bytes =
    files.place(found.file, found.offset, found.line)
  local made = message.guarded(make, found, arrival)
  return made and CHANGED or DROP, arrival, made or found
end
