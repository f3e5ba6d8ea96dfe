-- Which stuns were the longest?
-- param vm = : part of the VM's name
-- param most = 10 : how many rows
SELECT
    vm,
    datastore,
    host,
    ended_at,
    duration_us,
    round(duration_us / 1e6, 3) AS duration_s,
    severity,
    cause,
    measured_by
FROM stuns
WHERE positionCaseInsensitive(vm, {vm:String}) > 0
ORDER BY duration_us DESC, ended_at ASC
LIMIT {most:UInt32};
