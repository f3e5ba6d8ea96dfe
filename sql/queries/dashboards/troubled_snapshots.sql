-- One row is one problem snapshot operation: a removal that does not converge, failed or has not ended, or a
-- snapshot with memory. trouble shows which.
CREATE OR REPLACE VIEW troubled_snapshots
DEFINER = transform SQL SECURITY DEFINER AS
WITH newest AS
    (
        -- First the few candidates, then the newest revision of each. FINAL would merge all rows.
        SELECT
            event_id,
            argMax(
                (
                    toString(host), toString(vm), toString(datastore), toString(kind), started_at,
                    duration_ms, toString(outcome), iterations, is_converging, delta_bytes, pages,
                    lazy_io_ms, pages_per_second, is_deleted, ended_at, helper_sizes
                ),
                version
            ) AS told
        FROM snapshot_operations_stored
        WHERE event_id IN (
            SELECT suspects.event_id
            FROM snapshot_operations_stored AS suspects
            WHERE
                kind = 'create_memory' OR outcome = 'failed' OR is_converging = false
                OR (kind = 'remove' AND outcome = 'open')
        )
        GROUP BY event_id
    )

SELECT
    event_id,
    told.1 AS host,
    told.2 AS vm,
    told.3 AS datastore,
    told.5 AS started_at,
    multiIf(
        told.9 = false, 'does not converge',
        told.7 = 'failed', 'failed',
        told.4 = 'remove' AND told.7 = 'open', 'has not ended',
        told.4 = 'create_memory', 'with memory',
        ''
    ) AS trouble,
    told.7 AS outcome,
    -- An operation that has not ended lasts until the reference time.
    round(coalesce(told.6, dateDiff('millisecond', told.5, (SELECT as_of FROM fleet_clock))) / 60000, 1) AS minutes,
    told.8 AS iterations,
    round(told.10 / 1073741824, 2) AS delta_gib,
    round(told.11 * 4096 / 1073741824, 2) AS memory_gib,
    round(told.12 / 1000, 1) AS lazy_io_s,
    told.13 AS pages_per_second,
    told.4 AS kind,
    told.15 AS ended_at,
    told.9 AS is_converging,
    arrayMap(bytes -> round(bytes / 1073741824, 2), told.16) AS helpers_gib
FROM newest
WHERE trouble != '' AND told.14 = 0;
