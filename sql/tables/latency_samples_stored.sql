-- One row is one sample of one object (device, adapter, path, …) at one time.
-- `origin` is empty except for samples of vCenter; the view derives the others from object_class.
-- A partition is a month of arrival, as in log_lines_stored.
-- The sort key is the sample's identity; it serves "how did this device of this host behave?"
CREATE TABLE IF NOT EXISTS latency_samples_stored
(
    sampled_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    received_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    host LowCardinality(String),
    object_class LowCardinality(String),
    device LowCardinality(String),
    davg_ms Nullable(Float64) CODEC(ZSTD(1)),
    kavg_ms Nullable(Float64) CODEC(ZSTD(1)),
    gavg_ms Nullable(Float64) CODEC(ZSTD(1)),
    qavg_ms Nullable(Float64) CODEC(ZSTD(1)),
    davg_read_ms Nullable(Float64) CODEC(ZSTD(1)),
    davg_write_ms Nullable(Float64) CODEC(ZSTD(1)),
    gavg_read_ms Nullable(Float64) CODEC(ZSTD(1)),
    gavg_write_ms Nullable(Float64) CODEC(ZSTD(1)),
    commands_per_second Nullable(Float64) CODEC(ZSTD(1)),
    reads_per_second Nullable(Float64) CODEC(ZSTD(1)),
    writes_per_second Nullable(Float64) CODEC(ZSTD(1)),
    megabytes_read_per_second Nullable(Float64) CODEC(ZSTD(1)),
    megabytes_written_per_second Nullable(Float64) CODEC(ZSTD(1)),
    active_commands Nullable(Float64) CODEC(ZSTD(1)),
    queued_commands Nullable(Float64) CODEC(ZSTD(1)),
    failed_reserves_per_second Nullable(Float64) CODEC(ZSTD(1)),
    aborts_per_second Nullable(Float64) CODEC(ZSTD(1)),
    resets_per_second Nullable(Float64) CODEC(ZSTD(1)),
    file LowCardinality(String),
    generation LowCardinality(String),
    offset UInt64 CODEC(Delta, ZSTD(1)),
    line_bytes UInt32 CODEC(T64, ZSTD(1)),
    run_id LowCardinality(String),
    time_quality LowCardinality(String),
    origin LowCardinality(String),
    first_wins UInt64 MATERIALIZED 0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Micro(received_at),
    INDEX times sampled_at TYPE minmax
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(received_at)
ORDER BY (object_class, host, device, sampled_at, offset, origin);
