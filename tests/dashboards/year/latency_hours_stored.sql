-- 1 000 million samples, one per 20 s, aggregated: 640 LUNs of hosts, hour by hour for a year.
INSERT INTO latency_hours_stored
    (object_class, host, device, hour, worst_davg_ms, peak_davg_ms, worst_kavg_ms)
WITH
    number % 640 AS thing,
    intDiv(number, 640) AS hours_ago,
    intDiv(thing, 10) AS h,
    intDiv(h, 20) * 10 + thing % 10 AS lun,
    if(lun % 97 = 0, 1000, 3) * (0.5 + (cityHash64(number) % 1000) / 1000) AS davg
SELECT
    'scsi_device',
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'),
    concat('naa.6006', leftPad(toString(lun), 28, '0')),
    toStartOfHour({now:DateTime64(3, 'UTC')}) - toIntervalHour(hours_ago),
    davg,
    davg * 3,
    0.1 + (cityHash64(number, 1) % 100) / 1000
FROM numbers({first:UInt64}, {rows:UInt64});
