-- How long did memory snapshots slow down their VMs, and how long are the waits alone?
-- formula_s is pages / 64 * 25 ms, with the defaults of mainMem.ioBlockPages and mainMem.ioWait: an
-- explanation of the duration, not a prediction.
-- param vm = : part of the VM's name
-- param most = 10 : number of rows
SELECT
    vm,
    datastore,
    host,
    name,
    started_at,
    outcome,
    pages,
    formatReadableSize(pages * 4096) AS memory,
    round(lazy_io_ms / 1000, 3) AS lazy_io_s,
    pages_per_second,
    round(formula_ms / 1000, 3) AS formula_s
FROM snapshot_operations
WHERE
    (datastore, vm, event_id) IN
    (
        SELECT datastore, vm, event_id
        FROM snapshot_operations_stored
        WHERE
            kind = 'create_memory' AND isNotNull(pages)
            AND positionCaseInsensitive(vm, {vm:String}) > 0
        ORDER BY lazy_io_ms DESC NULLS LAST
        LIMIT 10 * {most:UInt32} + 50
    )
    AND isNotNull(pages)
ORDER BY lazy_io_ms DESC NULLS LAST, started_at ASC
LIMIT {most:UInt32};
