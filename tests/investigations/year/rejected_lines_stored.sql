-- 100 000 rejected lines of the last 30 days.
INSERT INTO rejected_lines_stored
    (received_at, source, host, file, generation, offset, line_bytes, run_id, line, reason)
SELECT
    {now:DateTime64(3, 'UTC')} - toIntervalSecond(number * 25), 'syslog',
    concat('esx', leftPad(toString(number % 1000), 4, '0'), '.lab.example'), '', '', number, 40, 'live',
    concat('garbage ', toString(number)), 'unknown head'
FROM numbers(100000);
