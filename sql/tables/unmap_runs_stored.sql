-- One row is one revision of one run of space reclamation; the highest revision counts.
-- The sort key is the run's identity; it serves "when was this volume reclaimed, and how fast?"
-- Events with equal revisions are equal; the one detected first is kept.
CREATE TABLE IF NOT EXISTS unmap_runs_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    volume LowCardinality(String),
    block_count UInt64,
    iterations UInt64,
    blocks_total UInt64,
    started_at DateTime64(6, 'UTC'),
    ended_at DateTime64(6, 'UTC'),
    duration_ms UInt64,
    blocks_per_second Nullable(Float64),
    fell_back Nullable(Bool),
    outcome LowCardinality(String),
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at)),
    INDEX hosts host TYPE bloom_filter
)
ENGINE = ReplacingMergeTree(version, is_deleted)
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(started_at) * 12 + toMonth(started_at)) % 64
ORDER BY (volume, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in past months.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
