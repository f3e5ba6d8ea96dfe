-- Converts a line to a record (schemas/log_line.v1) or a rejection, by the rules of
-- ingest/records.py.
--
-- Fluent Bit calls `read` with the line's bytes (with the heads of syslog relays separately, in
-- `relay`), then matches its head with ingest/parsers.yaml, then calls `record`, which returns what
-- the Kafka output needs:
--
-- Example Input:
--   {file = "/vmfs/volumes/ds-gold/web01/vmware.log", offset = 0,
--    line = "2024-05-06T07:08:09.123Z In(05) vmx - hello"}
-- Example Output:
--   {topic = "esxi.vmware_log", key = "ds-gold/web01",
--    value = '{"event_time":"2024-05-06T07:08:09.123Z",…,"message":"hello",…}'}

package.path = debug.getinfo(1, "S").source:match("^@(.*)record.lua$") .. "?.lua;" .. package.path
local files = require("files")
local limits = require("limits")
local message = require("message")
local text = require("text")
local times = require("times")

-- Return codes of a Lua filter; the last two keep the time of arrival.
local DROP, KEEP, CHANGED = -1, 0, 2

local FIELDS = {
  "event_time", "received_at", "kind", "source", "program", "host", "vm", "datastore", "severity",
  "thread", "op_id", "head", "message", "peer", "file", "generation", "offset", "line_bytes", "run_id",
  "time_quality", "stamped_at", "truncated",
}
local NO_VM = "vmware.log without VM name in the line and in the path"
-- In the order of the syslog severity numbers, 0 to 7.
local SEVERITIES = {
  [0] = "emergency", "alert", "critical", "error", "warning", "notice", "info", "debug",
}
local LEVELS = {
  -- ESXi 8: vmware.log and every other log
  Em = "emergency", Al = "alert", Cr = "critical", Er = "error", Wa = "warning", No = "notice",
  In = "info", Db = "debug",
  -- vmware.log up to 7.0; A is "always"
  E = "error", W = "warning", A = "notice", I = "info",
  -- hostd and similar programs, in lower case
  panic = "emergency", fatal = "critical", error = "error", warning = "warning", warn = "warning",
  info = "info", verbose = "debug", debug = "debug", trivia = "debug", trace = "debug",
}

-- in_syslog writes an address as `udp://192.0.2.7:514`.
local function address_of(peer)
  return peer and peer:match("^%a+://%[?(.-)%]?:%d+$") or peer
end

-- Returns a log line of the shipper itself, which the detector lost_syslog reads.
local function report_of(sender, count, arrival)
  local line = ("<12>%s %s stunwatch: sender limit %s lost %d log messages"):format(
    times.utc_text(arrival), sender, sender, count)
  return { line = line, peer = sender }
end

-- Returns the result of `read` if lines were dropped: a report per sender, and the current line.
local function with_reports(reported, arrival, found)
  local records = { found }
  for sender, count in pairs(reported) do
    records[#records + 1] = report_of(sender, count, arrival)
  end
  return CHANGED, arrival, records
end

-- Decodes the line's bytes to text, and adds the offset of a tailed line. Lines beyond the limit
-- of lua/limits.lua are dropped.
function read(_, arrival, found)
  local is_tailed, reported = found.offset ~= nil, nil
  if not is_tailed then
    local passes = limits.passes(address_of(found.peer), arrival)
    reported = limits.report(arrival)
    if not passes then
      if reported then return with_reports(reported, arrival, nil) end
      return DROP, arrival, found
    end
  end
  local relay = found.relay or ""
  local line = relay .. found.line
  if is_tailed then
    found.generation, found.offset, found.line_bytes =
      files.place(found.file, found.offset, line)
  end
  line = text.without_terminator(line)
  found.truncated = #line > text.MAX_LINE_BYTES or nil
  line = text.decode(text.cut(line)):sub(#relay + 1)
  local is_changed = is_tailed or line ~= found.line
  found.line = line
  if reported then return with_reports(reported, arrival, found) end
  return is_changed and CHANGED or KEEP, arrival, found
end

-- A head contains `-` for an unknown value.
local function known(value)
  if value ~= "-" then return value end
end

-- `[fe80::1]` → fe80::1
local function host_of(value)
  return known(value and value:match("^%[(.*)%]$") or value)
end

local function severity_of(level, pri)
  if level then return LEVELS[level] or LEVELS[level:lower()] end
  return pri and SEVERITIES[tonumber(pri) % 8]
end

-- The operation id in the head of a host's line, also as structured data. Longer ids are ignored.
local function op_id_of(head)
  local op_id = head:match("[ %[]opI[dD]=\"?([^%s%[%]()\"',;]+)")
  if op_id and #op_id <= 200 then return op_id end
end

-- file → {generation, datastore, vm; event_time and quality of its last stamped line}
local sources = files.memory()

local function source_of(file, generation)
  local source = files.recall(sources, file)
  if source and source.generation ~= generation then source = source.before end
  if source and source.generation == generation then return source end
  source = files.remember(sources, file, { generation = generation })
  source.datastore, source.vm = files.vm_of(file)
  return source
end

-- Returns the line's own time; or that of the last line of its file that has one; or the arrival;
-- and its quality. If the timestamp of a line from the network is far from its arrival, the
-- sender's clock is wrong: the time is the arrival, and the third value is the timestamp.
local function time_of(found, source, arrival)
  local event_time = found.time and times.event_time(found.time, found.burst, arrival)
  if not event_time then
    if source.event_time then return source.event_time, source.quality end
    return times.utc_text(arrival), "arrival"
  end
  if not found.file and not times.is_near_arrival(event_time, arrival) then
    return times.utc_text(arrival), "arrival", event_time
  end
  if found.uptime then
    local clock = (found.peer or "") .. " " .. (found.host or "")
    event_time = times.with_uptime(clock, event_time, found.uptime)
  end
  source.event_time = event_time
  source.quality = times.names_year(found.time) and "exact" or "year_inferred"
  return source.event_time, source.quality
end

-- Returns the record of a line, or its rejection. `found` has the groups of the matching pattern.
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
  -- In a message of several lines, a later line may look like a head.
  local is_read = (found.head or found.message) and found.line:sub(1, #head) == head
  -- A blank or indented line belongs to the last line with a timestamp.
  local is_continued = source.event_time and (found.line == "" or found.line:find("^[ \t]"))
  if not is_read and not is_continued then
    line.line = (found.relay or "") .. found.line
    return message.rejection(line, text.reason_of(line.line))
  end
  if found.file and not line.vm then
    line.line = found.line
    return message.rejection(line, NO_VM)
  end

  if text.is_long_name(found.host) or text.is_long_name(found.vm) then
    line.source, line.vm = found.file and "vmware_log" or "syslog", source.vm
    line.line = (found.relay or "") .. found.line
    return message.rejection(line, text.LONG_NAME)
  end
  line.event_time, line.time_quality, line.stamped_at = time_of(found, source, arrival)
  if line.source == "vmware_log" then
    line.program = "vmx"
  elseif found.program then
    line.program = known(found.program:lower())
  elseif found.thread and found.thread:find("^cpu%d") then
    line.program = "vmkernel"
  end
  line.host = host_of(found.host)
  line.severity = severity_of(found.level, found.pri)
  line.thread = known(found.thread)
  line.op_id = known(found.op_id or (line.source == "syslog" and op_id_of(head) or nil))
  line.head = found.head and (found.relay or "") .. found.head
  line.message = found.line:sub(#head + 1)
  return message.of("esxi." .. line.source, line, FIELDS)
end

function record(_, arrival, found)
  return CHANGED, arrival, message.guarded(make, found, arrival)
end
