-- 20 000 losses that logs report themselves.
INSERT INTO quality_events_stored
    (event_id, revision, is_deleted, detected_at, run_id, kind, host, source, vm, datastore,
     started_at, ended_at, count, evidence)
WITH {now:DateTime64(3, 'UTC')} - toIntervalMinute(number * 26) AS moment
SELECT
    generateUUIDv4(), 1, 0, moment, 'live', if(number % 2, 'log_throttled', 'gap'),
    concat('esx', leftPad(toString(number % 1000), 4, '0'), '.lab.example'), 'syslog', '', '',
    moment, moment, 3, ['lost']
FROM numbers(20000);
