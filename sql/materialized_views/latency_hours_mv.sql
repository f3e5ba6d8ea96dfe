-- Aggregates minutes into hours.
CREATE MATERIALIZED VIEW IF NOT EXISTS latency_hours_mv TO latency_hours_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    object_class,
    host,
    device,
    toDateTime(toStartOfHour(window_start), 'UTC') AS hour,
    max(avg_davg_ms) AS worst_davg_ms,
    max(max_davg_ms) AS peak_davg_ms,
    max(avg_kavg_ms) AS worst_kavg_ms,
    if(origin = 'esxtop', '', origin) AS origin
FROM latency_windows_stored
WHERE NOT is_deleted
GROUP BY object_class, host, device, hour, origin;
