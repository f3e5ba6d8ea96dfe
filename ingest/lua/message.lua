-- A record or rejection as the Kafka output needs it: its topic, its key, its JSON.

local text = require("text")
local times = require("times")

local message = {}

local REJECTION_FIELDS = {
  "received_at", "source", "host", "vm", "datastore", "file", "generation", "offset", "line_bytes",
  "peer", "run_id", "line", "reason", "truncated",
}

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape(character)
  return ESCAPES[character] or string.format("\\u%04x", character:byte())
end

local function to_json(value)
  if type(value) == "string" then
    if value:find('[%c"\\]') then value = value:gsub('[%c"\\]', escape) end
    return '"' .. value .. '"'
  elseif type(value) == "number" then
    local short = string.format("%.14g", value)
    return tonumber(short) == value and short or string.format("%.17g", value)
  end
  return tostring(value)
end

-- A host's key is its first label in lower case; an address is taken whole.
local function host_key(host)
  if host:find("^[%d.]+$") or host:find(":", 1, true) then return host end
  return host:match("^[^.]*"):lower()
end

-- The host that a line names, or the folder's name if that is the same one's fuller name.
function message.fuller_host(named, folder)
  local is_fuller = #folder > #named and host_key(folder) == host_key(named)
  return is_fuller and folder or named
end

-- One owner's lines stay in one partition, in order.
local function key_of(record)
  if record.source == "vmware_log" then
    -- Two VMs that nobody named are two: by their files.
    local unnamed = not record.vm and not record.datastore and record.generation or ""
    return (record.datastore or "") .. "/" .. (record.vm or "") .. unnamed
  end
  return record.host and host_key(record.host) or record.peer or record.file
end

-- `fields` gives the order; what the record lacks is left out.
function message.of(topic, record, fields)
  local members = {}
  for _, name in ipairs(fields) do
    local value = record[name]
    if value ~= nil then members[#members + 1] = '"' .. name .. '":' .. to_json(value) end
  end
  return { topic = topic, key = key_of(record), value = "{" .. table.concat(members, ",") .. "}" }
end

function message.rejection(record, reason)
  record.reason = reason
  return message.of("esxi.rejected", record, REJECTION_FIELDS)
end

-- make(found, arrival), or the rejection of a line that it fails on: an error that Fluent Bit sees
-- would cost all lines that it read together.
function message.guarded(make, found, arrival)
  local is_made, made = pcall(make, found, arrival)
  if is_made then return made end
  return message.rejection({
    received_at = times.utc_text(arrival), source = "unknown", file = found.file,
    generation = found.generation, offset = found.offset, line_bytes = found.line_bytes,
    peer = found.peer, run_id = "live", line = text.decode(text.cut(found.line)),
    truncated = found.truncated,
  }, "the shipper failed: " .. made)
end

return message
