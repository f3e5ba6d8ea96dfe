-- Which snapshot removals do not get ahead of the guest's writes, or have not ended?
-- param vm = : part of the VM's name
SELECT
    vm,
    datastore,
    host,
    started_at,
    ended_at,
    outcome,
    round(coalesce(duration_ms, dateDiff('millisecond', started_at, now64(3, 'UTC'))) / 60000, 1)
        AS minutes,
    iterations,
    arrayMap(bytes -> formatReadableSize(bytes), helper_sizes) AS helpers,
    formatReadableSize(delta_bytes) AS delta,
    is_converging
FROM snapshot_operations
WHERE
    kind = 'remove' AND (is_converging = false OR outcome = 'open')
    AND positionCaseInsensitive(vm, {vm:String}) > 0
ORDER BY started_at DESC, vm ASC;
