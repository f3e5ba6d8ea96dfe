-- How long did memory snapshots slow their VMs down, and how long would the waits alone take?
-- param vm = : part of the VM's name
-- param most = 10 : how many rows
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
    kind = 'create_memory' AND pages IS NOT NULL
    AND positionCaseInsensitive(vm, {vm:String}) > 0
ORDER BY lazy_io_ms DESC NULLS LAST, started_at ASC
LIMIT {most:UInt32};
