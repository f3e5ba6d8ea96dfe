-- 55 million minutes of latency: all 10 000 LUNs of hosts in the last 24 hours, every 148th minute of
-- the year before, and the 40 000 paths in the last 2 hours.
INSERT INTO latency_windows_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, object_class, device, window_seconds,
     window_start, window_end, avg_davg_ms, p95_davg_ms, max_davg_ms, avg_kavg_ms, max_kavg_ms,
     commands, samples)
WITH
    toStartOfMinute({now:DateTime64(3, 'UTC')}) AS last_at,
    number >= 50000000 AS is_path,
    if(is_path, number % 40000, number % 10000) AS thing,
    if(is_path, intDiv(number - 50000000, 40000), intDiv(number, 10000)) AS step,
    if(step < 1440, step, 1440 + (step - 1440) * 148) AS minutes_ago,
    thing % 1000 AS h,
    intDiv(thing, 1000) AS d,
    intDiv(h, 20) * 10 + d % 10 AS lun,
    toDateTime64(last_at, 3, 'UTC') - toIntervalMinute(minutes_ago) AS started,
    if(lun % 97 = 0, 1000, 3) * (0.5 + (cityHash64(number) % 1000) / 1000) AS davg
SELECT
    reinterpretAsUUID(cityHash64(number) * toUInt128(number + 7)), 1, 0, started + toIntervalMinute(1), 'live',
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'),
    if(is_path, 'path', 'scsi_device'),
    if(
        is_path,
        concat('vmhba', toString(1 + intDiv(d, 20)), ':C0:T', toString(intDiv(d, 10) % 2), ':L', toString(d % 10)),
        concat('naa.6006', leftPad(toString(lun), 28, '0'))
    ),
    60, started, started + toIntervalMinute(1),
    davg, davg * 2, davg * 3, 0.1, 0.4,
    if(is_path AND lun % 5 = 0 AND d >= 10, 0, 6000 + cityHash64(number, 1) % 100), 12
FROM numbers({first:UInt64}, {rows:UInt64});
