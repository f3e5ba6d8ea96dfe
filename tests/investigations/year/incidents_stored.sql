-- 3 000 incidents.
INSERT INTO incidents_stored
    (event_id, revision, is_deleted, detected_at, run_id, opened_at, closed_at, state, scope, verdict,
     confidence, hosts, devices, datastores, vms, reporting_hosts, missing, stun_count, worst_stun_us,
     conflict_count, peak_davg_ms, severity, evidence)
WITH
    {now:DateTime64(3, 'UTC')} - toIntervalMinute(number * 175 + 60) AS moment,
    number % 1000 AS h
SELECT
    generateUUIDv4(), 1, 0, moment, 'live', moment, moment + toIntervalMinute(30), 'closed', 'device',
    'One LUN is slow.', 'high',
    [concat('esx', leftPad(toString(h), 4, '0'), '.lab.example')],
    [concat('naa.6006', leftPad(toString(intDiv(h, 20) * 10), 28, '0'))],
    [concat('san-', leftPad(toString(intDiv(h, 20)), 2, '0'), '-0')], [], 1000, [], 3, 2000000, 4, 900, 'critical', []
FROM numbers(3000);
