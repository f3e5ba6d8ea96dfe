-- One row is one snapshot that was created and, as far as the logs tell, never removed; its age is as
-- of the fleet's clock.
CREATE OR REPLACE VIEW open_snapshots AS
WITH
    (SELECT as_of FROM fleet_clock) AS as_of,

    -- Whatever may be open: something was created after the last removal that went well.
    suspects AS
    (
        SELECT datastore, vm
        FROM snapshot_operations_stored
        GROUP BY datastore, vm
        HAVING
            maxIf(started_at, kind != 'remove')
            > maxIf(started_at, kind = 'remove' AND outcome = 'ok' AND NOT is_deleted)
    )

SELECT
    host,
    vm,
    datastore,
    name,
    kind,
    ended_at AS created_at,
    round(dateDiff('second', created_at, as_of) / 86400, 1) AS age_days,
    countIf(outcome = 'failed' AND kind = 'remove') OVER later AS failed_removals
FROM snapshot_operations
WHERE (datastore, vm) IN (SELECT datastore, vm FROM suspects)
WINDOW later AS (
    PARTITION BY datastore, vm ORDER BY started_at ASC
    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
)
QUALIFY
    kind != 'remove' AND outcome = 'ok'
    AND countIf(outcome = 'ok' AND kind = 'remove') OVER later = 0;
