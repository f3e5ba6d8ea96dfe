-- One row is one revision of one stun; the highest revision counts.
-- The sort key is the stun's identity; it serves "when was this VM stunned?"
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
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (datastore, vm, event_id);
