-- A line becomes a record (schemas/log_line.v1) or a rejection, by the rules of ingest/records.py.
--
-- Fluent Bit calls `read` with the line's bytes, then finds its head with ingest/parsers.yaml, then
-- calls `record`, which yields what the Kafka output needs:
--
-- Example Input:
--   {file = "/vmfs/volumes/ds-gold/web01/vmware.log", offset = 0,
--    line = "2024-05-06T07:08:09.123Z In(05) vmx - hello"}
-- Example Output:
--   {topic = "esxi.vmware_log", key = "ds-gold/web01",
--    value = '{"event_time":"2024-05-06T07:08:09.123Z",…,"message":"hello",…}'}

package.path = debug.getinfo(1, "S").source:match("^@(.*)record.lua$") .. "?.lua;" .. package.path
local files = require("files")
local message = require("message")
local text = require("text")
local times = require("times")

local KEEP, CHANGED = 0, 2 -- what a Lua filter answers; both leave the time of arrival as it is

local FIELDS = {
  "event_time", "received_at", "kind", "source", "program", "host", "vm", "datastore", "severity",
  "thread", "head", "message", "peer", "file", "generation", "offset", "line_bytes", "run_id",
  "time_quality", "truncated",
}
-- In the order of syslog's numbers.
local SEVERITIES = {
  [0] = "emergency", "alert", "critical", "error", "warning", "notice", "info", "debug",
}
local LEVELS = {
  -- ESXi 8: vmware.log and every other log
  Em = "emergency", Al = "alert", Cr = "critical", Er = "error", Wa = "warning", No = "notice",
  In = "info", Db = "debug",
  -- vmware.log up to 7.0; A is "always"
  E = "error", W = "warning", A = "notice", I = "info",
  -- hostd and its kin, lower-cased
  panic = "emergency", fatal = "critical", error = "error", warning = "warning", warn = "warning",
  info = "info", verbose = "debug", debug = "debug", trivia = "debug", trace = "debug",
}

-- The line's bytes become text, and a tailed line learns where in its file it stands.
function read(_, arrival, found)
  local line = found.line
  if found.offset then
    line, found.generation, found.offset, found.line_bytes =
      files.place(found.file, found.offset, line)
  end
  line = text.without_terminator(line)
  found.truncated = #line > text.MAX_LINE_BYTES or nil
  line = text.decode(text.cut(line))
  if not found.offset and line == found.line then return KEEP, arrival, found end
  found.line = line
  return CHANGED, arrival, found
end

-- A head writes `-` for what it does not know.
local function known(value)
  if value ~= "-" then return value end
end

local function severity_of(level, pri)
  if level then return LEVELS[level] or LEVELS[level:lower()] end
  return pri and SEVERITIES[tonumber(pri) % 8]
end

-- `udp://192.0.2.7:514` is how in_syslog writes an address.
local function address_of(peer)
  return peer and peer:match("^%a+://%[?(.-)%]?:%d+$") or peer
end

-- file → {generation, datastore, vm; event_time and quality of its last stamped line}
local sources = {}

local function source_of(file, generation)
  local source = sources[file]
  if source and source.generation ~= generation then source = source.before end
  if source and source.generation == generation then return source end
  source = files.remember(sources, file, { generation = generation })
  source.datastore, source.vm = file:match("([^/]+)/([^/]+)/[^/]+$")
  return source
end

-- The line's own time, or that of the last line of its file that has one, or of its arrival.
local function time_of(found, source, arrival)
  local event_time = found.time and times.event_time(found.time, found.burst, arrival)
  if not event_time then
    if source.event_time then return source.event_time, source.quality end
    return times.utc_text(arrival), "arrival"
  end
  if found.uptime then
    local clock = (found.peer or "") .. " " .. (found.host or "")
    event_time = times.with_uptime(clock, event_time, found.uptime)
  end
  source.event_time = event_time
  source.quality = found.time:find("^%a") and "year_inferred" or "exact"
  return source.event_time, source.quality
end

-- The record of a line, or its rejection. `found` has the groups of the pattern that read the line.
local function make(found, arrival)
  found.peer = address_of(found.peer)
  local source = found.file and source_of(found.file, found.generation) or {}
  local line = {
    received_at = times.utc_text(arrival), kind = "line",
    source = (found.file or found.vm) and "vmware_log" or "syslog",
    vm = found.vm or source.vm, datastore = source.datastore, peer = found.peer, file = found.file,
    generation = found.generation, offset = found.offset, line_bytes = found.line_bytes,
    run_id = "live", truncated = found.truncated,
  }

  local head = found.head or ""
  -- a message of several lines may have what looks like a head further below
  local is_read = (found.head or found.message) and found.line:sub(1, #head) == head
  -- a blank or indented line goes with the stamped one before it
  local is_continued = source.event_time and (found.line == "" or found.line:find("^[ \t]"))
  if not is_read and not is_continued then
    line.line = found.line
    local reason = found.line:find("%z") and "binary data" or "no head pattern matches"
    return message.rejection(line, reason)
  end

  line.event_time, line.time_quality = time_of(found, source, arrival)
  if line.source == "vmware_log" then
    line.program = "vmx"
  elseif found.program then
    line.program = known(found.program:lower())
  elseif found.thread and found.thread:find("^cpu%d") then
    line.program = "vmkernel"
  end
  line.host = known(found.host)
  line.severity = severity_of(found.level, found.pri)
  line.thread = known(found.thread)
  line.head, line.message = found.head, found.line:sub(#head + 1)
  return message.of("esxi." .. line.source, line, FIELDS)
end

function record(_, arrival, found)
  return CHANGED, arrival, message.guarded(make, found, arrival)
end
