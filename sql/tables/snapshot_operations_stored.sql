-- One row is one revision of one snapshot operation; the highest revision counts.
-- The sort key is the operation's identity; it serves "which snapshots of this VM were created and removed?"
-- Events with equal revisions are equal; the one detected first is kept.
CREATE TABLE IF NOT EXISTS snapshot_operations_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    kind LowCardinality(String),
    name String,
    op_id String,
    started_at DateTime64(6, 'UTC'),
    ended_at Nullable(DateTime64(6, 'UTC')),
    duration_ms Nullable(UInt64),
    outcome LowCardinality(String),
    iterations UInt32,
    helper_sizes Array(UInt64),
    is_converging Nullable(Bool),
    delta_bytes Nullable(UInt64),
    pages Nullable(UInt64),
    lazy_io_ms Nullable(UInt64),
    pages_per_second Nullable(Float64),
    formula_ms Nullable(UInt64),
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at)),
    INDEX vms vm TYPE bloom_filter,
    INDEX hosts host TYPE bloom_filter
)
ENGINE = ReplacingMergeTree(version, is_deleted)
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(started_at) * 12 + toMonth(started_at)) % 64
ORDER BY (datastore, vm, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in past months.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
