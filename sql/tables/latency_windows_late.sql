-- One row is one minute of one object for which a sample came after its window was closed: the view
-- latency_windows works it out anew from latency_samples_stored.
CREATE TABLE IF NOT EXISTS latency_windows_late
(
    host LowCardinality(String),
    object_class LowCardinality(String),
    device LowCardinality(String),
    window_start DateTime64(3, 'UTC'),
    run_id LowCardinality(String)
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(window_start)
ORDER BY (object_class, host, device, window_start);
