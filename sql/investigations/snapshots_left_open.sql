-- Which snapshots were created and, as far as the logs tell, never removed?
-- param vm = : part of the VM's name
-- param days = 2 : how many days old at least
SELECT
    vm,
    datastore,
    host,
    name,
    kind,
    ended_at AS created_at,
    round(dateDiff('second', created_at, now64(3, 'UTC')) / 86400, 1) AS age_days,
    countIf(outcome = 'failed' AND kind = 'remove') OVER (
        PARTITION BY datastore, vm
        ORDER BY started_at ASC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    ) AS failed_removals_since
FROM snapshot_operations
WHERE positionCaseInsensitive(vm, {vm:String}) > 0
QUALIFY
    kind != 'remove' AND outcome = 'ok' AND age_days >= {days:Float64}
    AND countIf(outcome = 'ok' AND kind = 'remove') OVER (
        PARTITION BY datastore, vm
        ORDER BY started_at ASC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
    ) = 0
ORDER BY age_days DESC, vm ASC;
