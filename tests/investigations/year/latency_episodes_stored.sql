-- 1 million latency episodes, a tenth of them sustained.
INSERT INTO latency_episodes_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, object_class, device, metric, origin,
     kind, started_at, ended_at, threshold_ms, peak_ms, mean_ms, samples, evidence)
WITH
    {now:DateTime64(3, 'UTC')} - toIntervalMillisecond(number * 31536) AS moment,
    cityHash64(number) % 1000 AS h,
    cityHash64(number, 1) % 10 AS d,
    25 + exp((cityHash64(number, 2) % 7000) / 1000) AS peak
SELECT
    generateUUIDv4(), 1, 0, moment, 'live',
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'), 'scsi_device',
    concat('naa.6006', leftPad(toString(intDiv(h, 20) * 10 + d), 28, '0')),
    'davg', if(number % 3, 'esxtop', 'vmkernel'), if(number % 10, 'spike', 'sustained'),
    moment, if(number < 50, NULL, moment + toIntervalSecond(if(number % 10, 10, 600))), 25,
    peak, peak / 2, 12, ['naa is slow']
FROM numbers(1000000);
