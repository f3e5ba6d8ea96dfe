-- One row is one task that a user requested from vCenter, in its newest version.
-- The sort key is its identity; it serves "which users changed this VM, and when?"
CREATE TABLE IF NOT EXISTS tasks_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    kind LowCardinality(String),
    user_name LowCardinality(String),
    started_at DateTime64(6, 'UTC'),
    host LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    vm_name String,
    snapshot_name String,
    vcenter LowCardinality(String),
    task_key String,
    message String CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at)),
    INDEX hosts host TYPE bloom_filter
)
ENGINE = ReplacingMergeTree(version, is_deleted)
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(started_at) * 12 + toMonth(started_at)) % 64
ORDER BY (vm, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in past months.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
