-- 200 000 losses on paths to storage; a hundred are open.
INSERT INTO path_events_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, path, device, datastore, kind,
     started_at, ended_at, evidence)
WITH
    {now:DateTime64(3, 'UTC')} - toIntervalMillisecond(number * 157680) AS moment,
    cityHash64(number) % 1000 AS h
SELECT
    generateUUIDv4(), 1, 0, moment, 'live',
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'),
    concat('vmhba', toString(number % 2), ':C0:T0:L', toString(number % 10)), '', '',
    ['path_dead', 'path_on', 'apd_start', 'ats_miscompare'][number % 4 + 1],
    moment, if(number < 100, NULL, moment + toIntervalSecond(60)), ['path changed state']
FROM numbers(200000);
