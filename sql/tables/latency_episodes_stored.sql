-- One row is one revision of one latency episode; the highest revision counts.
-- The sort key consists of the episode's identity; it serves "when was this device slow, and for
-- which hosts?" It does not contain the host, because a later revision can have the host's full name.
-- It contains the start, so all revisions of an episode are in the same month.
-- Events with equal revisions are equal; the one detected first is kept.
CREATE TABLE IF NOT EXISTS latency_episodes_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    object_class LowCardinality(String),
    device LowCardinality(String),
    metric LowCardinality(String),
    origin LowCardinality(String),
    kind LowCardinality(String),
    started_at DateTime64(6, 'UTC'),
    ended_at Nullable(DateTime64(6, 'UTC')),
    threshold_ms Nullable(Float64),
    peak_ms Float64,
    mean_ms Float64,
    baseline_ms Nullable(Float64),
    samples UInt32,
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at)),
    INDEX hosts host TYPE bloom_filter
)
ENGINE = ReplacingMergeTree(version, is_deleted)
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(started_at) * 12 + toMonth(started_at)) % 64
ORDER BY (device, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in past months.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
