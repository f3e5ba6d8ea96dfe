-- Converts a record or rejection to the form that the Kafka output needs: topic, key and JSON.

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

-- A table is JSON already: {json = "[1,2]"}.
function message.to_json(value)
  if type(value) == "string" then
    if value:find('[%c"\\]') then value = value:gsub('[%c"\\]', escape) end
    return '"' .. value .. '"'
  elseif type(value) == "number" then
    local short = string.format("%.14g", value)
    return tonumber(short) == value and short or string.format("%.17g", value)
  elseif type(value) == "table" then
    return value.json
  end
  return tostring(value)
end

-- A host's key is its first label in lower case, or a whole IP address.
local function host_key(host)
  if host:find("^[%d.]+$") or host:find(":", 1, true) then return host end
  return host:match("^[^.]*"):lower()
end

-- Returns the host named by a line, or the folder's name if that is a longer name of the same host.
function message.fuller_host(named, folder)
  local is_fuller = #folder > #named and host_key(folder) == host_key(named)
  return is_fuller and folder or named
end

-- All lines of one host or VM go to one partition, in order.
local function key_of(record)
  if record.source == "vmware_log" then
    -- Without VM and datastore, files are told apart by fingerprint: they may be different VMs.
    local unnamed = not record.vm and not record.datastore and record.generation or ""
    return (record.datastore or "") .. "/" .. (record.vm or "") .. unnamed
  end
  return record.host and host_key(record.host) or record.peer or record.file
end

-- `fields` sets the order; fields that the record does not have are left out.
function message.of(topic, record, fields)
  local members = {}
  for _, name in ipairs(fields) do
    local value = record[name]
    if value ~= nil then members[#members + 1] = '"' .. name .. '":' .. message.to_json(value) end
  end
  return { topic = topic, key = key_of(record), value = "{" .. table.concat(members, ",") .. "}" }
end

function message.rejection(record, reason)
  record.reason = reason
  return message.of("esxi.rejected", record, REJECTION_FIELDS)
end

-- Calls make(found, arrival). If it raises an error, returns the rejection of the line instead:
-- an error that reaches Fluent Bit would lose all lines of the same batch.
function message.guarded(make, found, arrival)
  local is_made, made = pcall(make, found, arrival)
  if is_made then return made end
  return message.rejection({
    received_at = times.utc_text(arrival), source = "unknown", file = found.file,
    generation = found.generation, offset = found.offset, line_bytes = found.line_bytes,
    peer = found.peer, run_id = "live", line = text.decode(text.cut((found.relay or "") .. found.line)),
    truncated = found.truncated,
  }, "the shipper failed: " .. made)
end

return message
