-- One row is one minute of one object with a sample that arrived after the window closed. The view
-- latency_windows recalculates it from latency_samples_stored.
CREATE TABLE IF NOT EXISTS latency_windows_late
(
    host LowCardinality(String),
    object_class LowCardinality(String),
    device LowCardinality(String),
    window_start DateTime64(3, 'UTC'),
    run_id LowCardinality(String)
)
ENGINE = ReplacingMergeTree
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(window_start) * 12 + toMonth(window_start)) % 64
ORDER BY (object_class, host, device, window_start);
