-- 26 000 runs of space reclamation: 500 volumes, once a week.
INSERT INTO unmap_runs_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, volume, block_count, iterations,
     blocks_total, started_at, ended_at, duration_ms, blocks_per_second, fell_back, outcome, evidence)
WITH {now:DateTime64(3, 'UTC')} - toIntervalMinute(number * 20) AS moment
SELECT
    generateUUIDv4(), 1, 0, moment, 'live',
    concat('esx', leftPad(toString(number % 1000), 4, '0'), '.lab.example'),
    concat('50000000-00000000-0000-', leftPad(toString(number % 500), 12, '0')),
    8000, 120, 960000, moment, moment + toIntervalSecond(90), 90000, 10666.7, number % 50 = 0, 'ok', ['Unmap']
FROM numbers(26000);
