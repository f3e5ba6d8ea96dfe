-- 15 million stuns: each of 20 000 VMs twice a night during its backup, vMotions by day; 1 in 100 has
-- two revisions.
INSERT INTO stuns_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, vm, datastore, started_at, ended_at,
     duration_us, reported_us, measured_by, cause, cause_detail, is_quiesced, is_cbt, severity, evidence)
WITH
    number % 15000000 AS n,
    if(n < 14600000, intDiv(n, 40000), intDiv((n - 14600000) * 365, 400000)) AS night,
    if(n < 14600000, intDiv(n % 40000, 2), cityHash64(n) % 20000) AS v,
    n % 2 AS is_removal,
    toStartOfDay({now:DateTime64(3, 'UTC')}) - toIntervalDay(365 - night)
        + toIntervalMillisecond(if(
            n < 14600000,
            79200000 + v * 1000 + is_removal * 1800000,
            28800000 + cityHash64(n, 1) % 36000000
        )) - toIntervalDay(1) AS moment,
    toUInt64(exp(9 + (cityHash64(n, 2) % 1000000) / 1e6 * if(v % 100 = 0, 9, 5)) * (1 + 2 * is_removal)) AS us
SELECT
    reinterpretAsUUID(MD5(toString(n))) AS event_id,
    if(number >= 15000000, 2, 1),
    0,
    moment,
    'live',
    concat('esx', leftPad(toString(v % 1000), 4, '0'), '.lab.example'),
    concat('vm', leftPad(toString(v), 5, '0')),
    concat('san-', leftPad(toString(intDiv(v % 1000, 20)), 2, '0'), '-', toString(intDiv(v, 1000) % 10)),
    moment - toIntervalMicrosecond(us),
    moment,
    us,
    NULL,
    'unstun',
    if(n >= 14600000, 'vmotion', if(is_removal, 'snapshot_remove', 'snapshot_create')),
    '',
    if(is_removal, NULL, v % 2 = 0),
    v % 3 != 0,
    multiIf(us <= 200000, 'normal', us <= 1000000, 'notice', us <= 5000000, 'warning', 'critical'),
    [concat(toString(moment), 'Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for ', toString(us), ' us')]
FROM numbers({first:UInt64}, {rows:UInt64});
