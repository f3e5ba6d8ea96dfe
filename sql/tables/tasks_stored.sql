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
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (vm, event_id);
