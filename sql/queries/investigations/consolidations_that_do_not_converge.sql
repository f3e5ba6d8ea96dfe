-- Which snapshot removals do not converge, or have not ended?
-- Helper snapshots that do not shrink: the consolidation does not end until the guest writes less.
-- param vm = : part of the VM's name
-- param days = 30 : days to look back
-- param until = 2100-01-01 : until this time, UTC; by default now, or the newest event if all logs were replayed
-- param most = 50 : number of rows
WITH
    if(
        {until:DateTime64(6, 'UTC')} > now64(6, 'UTC'), (SELECT as_of FROM fleet_clock), {until:DateTime64(6, 'UTC')}
    ) AS until_at,
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
    if(isNull(ended_at), round(dateDiff('millisecond', started_at, until_at) / 60000, 1), troubled.minutes) AS minutes,
    iterations,
    helpers_gib,
    delta_gib,
    is_converging
FROM troubled_snapshots AS troubled
WHERE
    trouble IN ('does not converge', 'has not ended')
    AND started_at >= from_at AND started_at <= until_at
    AND positionCaseInsensitive(vm, {vm:String}) > 0
ORDER BY started_at DESC, vm ASC
LIMIT {most:UInt32};
