-- One row is one revision of one stun; the highest revision counts.
-- The sort key is the stun's identity; it serves "when was this VM stunned?". A stun's end is part of its identity,
-- so all its revisions are in the same month. Only the end of a stun that a host's log reports can change, when an
-- earlier line arrives: those stuns have one partition.
-- Events with equal revisions are equal; the one detected first is kept.
CREATE TABLE IF NOT EXISTS stuns_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    started_at DateTime64(6, 'UTC'),
    ended_at DateTime64(6, 'UTC'),
    duration_us UInt64,
    reported_us Nullable(UInt64),
    measured_by LowCardinality(String),
    cause LowCardinality(String),
    cause_detail String,
    op_id String,
    migration_id Nullable(String),
    switchover_us Nullable(UInt64),
    is_quiesced Nullable(Bool),
    is_cbt Nullable(Bool),
    severity LowCardinality(String),
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at)),
    INDEX vms vm TYPE bloom_filter,
    INDEX hosts host TYPE bloom_filter
)
ENGINE = ReplacingMergeTree(version, is_deleted)
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY if(measured_by = 'hostd', 64, (toYear(ended_at) * 12 + toMonth(ended_at)) % 64)
ORDER BY (datastore, vm, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in past months.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
