-- The newest line of each source of source_activity_stored.
INSERT INTO newest_lines_stored (source, arrived_at, line_at)
WITH {now:DateTime64(3, 'UTC')} AS now_at
SELECT ['syslog', 'vmware_log'][number + 1], now_at, now_at
FROM numbers(2);
