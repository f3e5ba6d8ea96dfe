-- Which snapshot removals do not get ahead of the guest's writes, or have not ended?
-- Helpers that do not shrink: the consolidation will not end before the guest writes less.
-- param vm = : part of the VM's name
-- param days = 30 : how far back
-- param until = 2100-01-01 : up to when, UTC; now at the latest
-- param most = 50 : how many rows
WITH
    least({until:DateTime64(6, 'UTC')}, now64(6, 'UTC')) AS until_at,
    least(
        until_at, (SELECT max(started_at) FROM snapshot_operations_stored)
    ) - toIntervalDay({days:UInt32}) AS from_at
SELECT
    vm,
    datastore,
    host,
    started_at,
    ended_at,
    outcome,
    round(coalesce(duration_ms, dateDiff('millisecond', started_at, until_at)) / 60000, 1) AS minutes,
    iterations,
    arrayMap(bytes -> round(bytes / 1073741824, 2), helper_sizes) AS helpers_gib,
    round(delta_bytes / 1073741824, 2) AS delta_gib,
    is_converging
FROM snapshot_operations_stored FINAL
PREWHERE started_at >= from_at AND started_at <= until_at
WHERE
    kind = 'remove' AND (is_converging = false OR outcome = 'open')
    AND positionCaseInsensitive(vm, {vm:String}) > 0
ORDER BY started_at DESC, vm ASC
LIMIT {most:UInt32};
