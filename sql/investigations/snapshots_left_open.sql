-- Which snapshots were created and, as far as the logs tell, never removed; how old are they?
-- param vm = : part of the VM's name
-- param days = 2 : how many days old at least
-- param until = 2100-01-01 : as of when, UTC; now at the latest
-- param most = 50 : how many rows, the oldest first
WITH
    least({until:DateTime64(6, 'UTC')}, now64(6, 'UTC')) AS until_at,

    -- Whatever may be open: something was created after the last removal that went well, or that
    -- removal did not after all.
    suspects AS
    (
        SELECT datastore, vm
        FROM snapshot_operations_stored
        WHERE started_at <= until_at AND positionCaseInsensitive(vm, {vm:String}) > 0
        GROUP BY datastore, vm
        HAVING
            maxIf(started_at, kind != 'remove')
            > (maxIf(started_at, kind = 'remove' AND outcome = 'ok' AND NOT is_deleted) AS removed_at)
            OR maxIf(started_at, kind = 'remove' AND (outcome = 'failed' OR is_deleted)) >= removed_at
    )

SELECT
    vm,
    datastore,
    host,
    name,
    kind,
    ended_at AS created_at,
    round(dateDiff('second', created_at, until_at) / 86400, 1) AS age_days,
    countIf(outcome = 'failed' AND kind = 'remove') OVER later AS failed_removals_since
FROM snapshot_operations
WHERE (datastore, vm) IN (SELECT datastore, vm FROM suspects) AND started_at <= until_at
WINDOW later AS (
    PARTITION BY datastore, vm ORDER BY started_at ASC
    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
)
QUALIFY
    kind != 'remove' AND outcome = 'ok' AND age_days >= {days:Float64}
    AND countIf(outcome = 'ok' AND kind = 'remove') OVER later = 0
ORDER BY age_days DESC, vm ASC
LIMIT {most:UInt32};
