-- The windows of late samples.
CREATE MATERIALIZED VIEW IF NOT EXISTS latency_windows_late_mv TO latency_windows_late
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    host,
    object_class,
    device,
    toStartOfInterval(assumeNotNull(sampled_at), INTERVAL 1 MINUTE) AS window_start,
    run_id
FROM late
WHERE fault = '';
