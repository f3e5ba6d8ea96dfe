-- 14.6 million snapshot operations: the nightly backup of 20 000 VMs creates one and removes it; 1 in
-- 30 000 is never removed, 1 in 500 removals does not converge, 1 in 2 000 has memory.
INSERT INTO snapshot_operations_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, vm, datastore, kind, name, started_at,
     ended_at, duration_ms, outcome, iterations, helper_sizes, is_converging, delta_bytes, pages,
     lazy_io_ms, pages_per_second, formula_ms, evidence)
WITH
    number % 14600000 AS n,
    intDiv(n, 40000) AS night,
    intDiv(n % 40000, 2) AS v,
    n % 2 AS is_removal,
    toStartOfDay({now:DateTime64(3, 'UTC')}) - toIntervalDay(366 - night)
        + toIntervalMillisecond(79200000 + v * 1000 + is_removal * 1800000) AS ended,
    NOT is_removal AND cityHash64(n, 3) % 2000 = 0 AS is_memory,
    is_removal AND cityHash64(v, night, 4) % 30000 = 0 AS is_failed,
    is_removal AND cityHash64(n, 5) % 500 = 0 AS is_slow,
    toUInt64(2000 + cityHash64(n, 6) % 60000 * (1 + 4 * is_removal)) AS took_ms
SELECT
    reinterpretAsUUID(MD5(toString((n, 's')))) AS event_id,
    if(number >= 14600000, 2, 1),
    0,
    ended,
    'live',
    concat('esx', leftPad(toString(v % 1000), 4, '0'), '.lab.example'),
    concat('vm', leftPad(toString(v), 5, '0')),
    concat('san-', leftPad(toString(intDiv(v % 1000, 20)), 2, '0'), '-', toString(intDiv(v, 1000) % 10)),
    multiIf(is_removal, 'remove', is_memory, 'create_memory', 'create'),
    if(is_removal, '', concat('Backup-', ['silver', 'gold', 'weekly'][v % 3 + 1], '-', toString(n))),
    ended - toIntervalMillisecond(took_ms),
    ended,
    took_ms,
    if(is_failed, 'failed', 'ok'),
    if(is_slow, 5, 0),
    if(is_slow, [toUInt64(1e9), toUInt64(2e9), toUInt64(3e9)], []),
    if(is_slow, false, NULL),
    if(is_removal, toUInt64(1e8 + cityHash64(n, 7) % 20000000000), NULL),
    if(is_memory, 1048576, NULL),
    if(is_memory, 60000 + cityHash64(n, 8) % 400000, NULL),
    if(is_memory, 3000., NULL),
    if(is_memory, 409600, NULL),
    [concat(toString(ended), 'Z In(05) vmx - SnapshotVMX')]
FROM numbers({first:UInt64}, {rows:UInt64});
