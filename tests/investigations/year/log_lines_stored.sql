-- 6 million lines of 1 000 hosts in the last hours; a noisy tenth of the hosts wrote most of them.
INSERT INTO log_lines_stored
    (event_time, given_received_at, source, program, host, vm, datastore, severity, thread, given_head, message,
     peer, file, generation, offset, line_bytes, run_id, time_quality, truncated)
WITH
    if(number % 2, cityHash64(number) % 100, cityHash64(number) % 1000) AS h,
    toDateTime64({now:DateTime64(3, 'UTC')}, 6, 'UTC') - toIntervalMillisecond(number * 14) AS moment
SELECT
    moment, moment, 'syslog', if(number % 3, 'vmkernel', 'hostd'),
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'), '', '', 'info', 'cpu3:4097',
    concat(toString(moment), 'Z cpu3:4097)'), concat('ScsiDeviceIO: 2331: Cmd ', toString(number % 1000)),
    '', '', '', 0, 90, 'live', 'exact', false
FROM numbers(6000000);
