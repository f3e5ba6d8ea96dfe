-- One row is one revision of one minute of one object; the highest revision counts.
-- The sort key is the window's identity; it serves "how did this device of this host behave?"
CREATE TABLE IF NOT EXISTS latency_windows_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    object_class LowCardinality(String),
    device LowCardinality(String),
    window_seconds UInt32,
    window_start DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    window_end DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    avg_davg_ms Nullable(Float64) CODEC(ZSTD(1)),
    p95_davg_ms Nullable(Float64) CODEC(ZSTD(1)),
    max_davg_ms Nullable(Float64) CODEC(ZSTD(1)),
    avg_kavg_ms Nullable(Float64) CODEC(ZSTD(1)),
    max_kavg_ms Nullable(Float64) CODEC(ZSTD(1)),
    commands Nullable(Float64) CODEC(ZSTD(1)),
    samples UInt64,
    origin LowCardinality(String) DEFAULT 'esxtop',
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(window_start) * 12 + toMonth(window_start)) % 64
ORDER BY (object_class, host, device, window_start, event_id);
