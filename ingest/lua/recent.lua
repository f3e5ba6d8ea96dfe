-- A cache of recently used entries with a size limit, because names from lines or folders must not
-- fill the memory.
--
-- It has two tables. An entry that is used moves to the newer table. When that holds half of the
-- limit, the older table is dropped. So at least the most recent half of the entries is kept.

local recent = {}

function recent.new(most)
  return { newer = {}, older = {}, count = 0, half = math.max(1, math.floor(most / 2)) }
end

function recent.put(memory, key, value)
  if memory.newer[key] == nil then
    if memory.count >= memory.half then
      memory.newer, memory.older, memory.count = {}, memory.newer, 0
    end
    memory.count = memory.count + 1
  end
  memory.newer[key] = value
end

function recent.get(memory, key)
  local value = memory.newer[key]
  if value == nil then
    value = memory.older[key]
    if value ~= nil then recent.put(memory, key, value) end
  end
  return value
end

return recent
