-- Which stuns were the longest, of a VM or of all?
-- param vm = : part of the VM's name
-- param from_at = 1970-01-01 : stuns that ended at this time or later, UTC
-- param to_at = 2100-01-01 : stuns that ended before this time, UTC
-- param least_ms = 0 : only stuns of this many milliseconds or more
-- param most = 10 : how many rows
WITH
    -- The longest of all revisions first: there are far more stuns than can be compared in a moment.
    longest AS
    (
        SELECT duration_us
        FROM stuns_stored
        WHERE
            positionCaseInsensitive(vm, {vm:String}) > 0
            AND ended_at >= {from_at:DateTime64(6, 'UTC')} AND ended_at < {to_at:DateTime64(6, 'UTC')}
        ORDER BY duration_us DESC
        LIMIT 10 * {most:UInt32} + 50
    ),

    chosen AS
    (
        SELECT datastore, vm, event_id
        FROM stuns_stored
        PREWHERE duration_us >= (SELECT min(duration_us) FROM longest)
        WHERE
            positionCaseInsensitive(vm, {vm:String}) > 0
            AND ended_at >= {from_at:DateTime64(6, 'UTC')} AND ended_at < {to_at:DateTime64(6, 'UTC')}
    )

SELECT
    vm,
    datastore,
    host,
    ended_at,
    duration_us,
    round(duration_us / 1e6, 3) AS duration_s,
    severity,
    cause,
    measured_by,
    cause_detail
FROM
(
    SELECT *
    FROM stuns_stored
    PREWHERE (datastore, vm, event_id) IN (SELECT datastore, vm, event_id FROM chosen)
    ORDER BY version DESC
    LIMIT 1 BY event_id
) AS stuns
WHERE NOT is_deleted AND duration_us >= toUInt64({least_ms:UInt32}) * 1000
ORDER BY duration_us DESC, ended_at ASC
LIMIT {most:UInt32};
