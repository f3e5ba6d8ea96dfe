-- Which snapshots were never removed, as far as the logs show, and how old are they?
-- No log names the snapshot that is removed: a removal closes the newest open one, or all if the task was
-- "remove all". open_at_least: open snapshots of the VM, without those created before its log begins or
-- while it was off. unclear_removals_since: later removals without a logged end.
-- param vm = : part of the VM's name
-- param days = 2 : smallest age, days
-- param until = 2100-01-01 : as of this time, UTC; by default now, or the newest event if all logs were replayed
-- param most = 50 : number of rows, the oldest first
SELECT
    vm,
    datastore,
    host,
    name,
    kind,
    created_at,
    age_days,
    open_at_least,
    failed_removals AS failed_removals_since,
    unclear_removals AS unclear_removals_since
FROM open_snapshots_at(until = {until:String}, vm = {vm:String}, datastore = '')
WHERE age_days >= {days:Float64}
ORDER BY age_days DESC, vm ASC, created_at ASC
LIMIT {most:UInt32};
