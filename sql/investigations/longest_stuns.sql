-- Which stuns were the longest, of a VM or of all?
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
WHERE
    -- The longest of all revisions first: there are far more stuns than can be compared in a moment.
    (datastore, vm, event_id) IN
    (
        SELECT datastore, vm, event_id
        FROM stuns_stored
        WHERE positionCaseInsensitive(vm, {vm:String}) > 0
        ORDER BY duration_us DESC
        LIMIT 10 * {most:UInt32} + 50
    )
ORDER BY duration_us DESC, ended_at ASC
LIMIT {most:UInt32};
