-- 25 million samples: the LUNs of 1 000 hosts every 5 s of the last hour, the disks of 20 000 VMs
-- every 5 minutes of the last 2 days, and some samples of LUNs in 90 days, the retention.
INSERT INTO latency_samples_stored
    (sampled_at, given_received_at, host, object_class, device, davg_ms, kavg_ms, gavg_ms,
     commands_per_second, reads_per_second, writes_per_second, file, generation, offset, line_bytes,
     run_id, time_quality)
WITH
    number < 11520000 AS is_disk,
    number >= 18720000 AS is_seldom,
    if(is_disk, number % 20000, number % 10000) AS thing,
    multiIf(
        is_disk, intDiv(number, 20000) * 300,
        is_seldom, intDiv(number - 18720000, 10000) * 12000,
        intDiv(number - 11520000, 10000) * 5
    ) AS seconds_ago,
    thing % 1000 AS h,
    intDiv(h, 20) * 10 + intDiv(thing, 1000) % 10 AS lun,
    toDateTime64({now:DateTime64(3, 'UTC')}, 6, 'UTC') - toIntervalSecond(seconds_ago) AS moment,
    if(lun % 97 = 0, 1000, 3) * (0.5 + (cityHash64(number) % 1000) / 1000) AS davg
SELECT
    moment, moment,
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'),
    if(is_disk, 'virtual_disk', 'scsi_device'),
    if(
        is_disk,
        concat('vm', leftPad(toString(thing), 5, '0'), ':scsi0:0'),
        concat('naa.6006', leftPad(toString(lun), 28, '0'))
    ),
    if(is_disk, NULL, davg), if(is_disk, NULL, 0.1), davg, 150, 100, 50,
    concat('/var/log/esxtop/esx', toString(h), '.csv'),
    -- Three files per host, each complete except for a line of one host in fifty.
    concat(multiIf(is_disk, 'disks', is_seldom, 'seldom', 'luns'), toString(h)),
    intDiv(seconds_ago, multiIf(is_disk, 300, is_seldom, 12000, 5)) * 3000, 3000, 'live', 'exact'
FROM numbers({first:UInt64}, {rows:UInt64})
WHERE h % 50 != 13 OR seconds_ago != 1800;
