-- The windows that late samples touch. What does not parse says of no window anything.
CREATE MATERIALIZED VIEW IF NOT EXISTS late_pump TO latency_windows_late
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_time String,
        host String,
        object_class String,
        device String,
        run_id String
    )') AS sample,
    parseDateTime64BestEffortOrNull(sample.event_time, 3, 'UTC') AS sampled_at
SELECT
    sample.host AS host,
    sample.object_class AS object_class,
    sample.device AS device,
    toStartOfInterval(assumeNotNull(sampled_at), INTERVAL 1 MINUTE) AS window_start,
    sample.run_id AS run_id
FROM late_reader
WHERE isNotNull(sampled_at) AND sample.device != '';
