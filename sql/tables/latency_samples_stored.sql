-- One row is one sample of one object (device, adapter, path, …) at one time.
-- `origin` is empty except for samples of vCenter; the view derives the others from object_class.
-- A partition is a week of arrival; `received_at` and `first_wins` are as in log_lines_stored.
-- The sort key is the sample's identity; it serves "how did this device of this host behave?"
CREATE TABLE IF NOT EXISTS latency_samples_stored
(
    sampled_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    host LowCardinality(String),
    object_class LowCardinality(String),
    device LowCardinality(String),
    davg_ms Nullable(Float64) CODEC(ZSTD(3)),
    kavg_ms Nullable(Float64) CODEC(ZSTD(3)),
    gavg_ms Nullable(Float64) CODEC(ZSTD(3)),
    qavg_ms Nullable(Float64) CODEC(ZSTD(3)),
    davg_read_ms Nullable(Float64) CODEC(ZSTD(3)),
    davg_write_ms Nullable(Float64) CODEC(ZSTD(3)),
    gavg_read_ms Nullable(Float64) CODEC(ZSTD(3)),
    gavg_write_ms Nullable(Float64) CODEC(ZSTD(3)),
    commands_per_second Nullable(Float64) CODEC(ZSTD(1)),
    reads_per_second Nullable(Float64) CODEC(ZSTD(1)),
    writes_per_second Nullable(Float64) CODEC(ZSTD(1)),
    megabytes_read_per_second Nullable(Float64) CODEC(ZSTD(3)),
    megabytes_written_per_second Nullable(Float64) CODEC(ZSTD(3)),
    active_commands Nullable(Float64) CODEC(ZSTD(1)),
    queued_commands Nullable(Float64) CODEC(ZSTD(1)),
    failed_reserves_per_second Nullable(Float64) CODEC(ZSTD(1)),
    aborts_per_second Nullable(Float64) CODEC(ZSTD(1)),
    resets_per_second Nullable(Float64) CODEC(ZSTD(1)),
    file LowCardinality(String),
    generation LowCardinality(String),
    offset UInt64 CODEC(Delta, ZSTD(1)),
    line_bytes UInt32 CODEC(ZSTD(3)),
    run_id LowCardinality(String),
    time_quality LowCardinality(String),
    origin LowCardinality(String),
    -- These two exist only while a row is inserted. Every insert sets the first one.
    given_received_at DateTime64(6, 'UTC') EPHEMERAL,
    delay_ms Int64 EPHEMERAL toUnixTimestamp64Milli(given_received_at) - toUnixTimestamp64Milli(sampled_at),
    first_wins UInt64 DEFAULT toUInt64(
        if(delay_ms < 3600000, 0x7000000000000000 - delay_ms, 0x3000000000000000 - toUnixTimestamp64Milli(given_received_at))
    ) CODEC(T64, ZSTD(3)),
    received_on Date DEFAULT toDate(given_received_at),
    received_at DateTime64(6, 'UTC') ALIAS fromUnixTimestamp64Milli(
        if(
            first_wins > 0x5000000000000000,
            toUnixTimestamp64Milli(sampled_at) + 0x7000000000000000 - toInt64(first_wins),
            0x3000000000000000 - toInt64(first_wins)
        ),
        'UTC'
    ),
    INDEX times sampled_at TYPE minmax
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toMonday(received_on)
ORDER BY (object_class, host, device, sampled_at, offset, origin)
SETTINGS ttl_only_drop_parts = 1;
