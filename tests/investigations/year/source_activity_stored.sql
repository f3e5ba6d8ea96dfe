-- Intervals of five minutes in 30 days, the retention: files of 500 hosts, and syslog of all hosts.
INSERT INTO source_activity_stored (source, host, bucket, first_received_at, last_received_at)
WITH
    number % 1500 AS pair,
    toStartOfFiveMinutes({now:DateTime64(3, 'UTC')}) - toIntervalMinute(intDiv(number, 1500) * 5) AS bucket_at
SELECT
    if(pair < 1000, 'syslog', 'vmware_log'),
    concat('esx', leftPad(toString(pair % 1000), 4, '0'), '.lab.example'),
    bucket_at, bucket_at, bucket_at + toIntervalSecond(280)
FROM numbers(1500 * 288 * 30)
WHERE pair != 77 OR intDiv(number, 1500) > 60;
