-- One row is one revision of one loss that a log itself reports; the highest revision counts. The view derives
-- the other losses from stored data.
-- The sort key is its identity; it serves "whose log was throttled?"
-- Events with equal revisions are equal; the one detected first is kept.
CREATE TABLE IF NOT EXISTS quality_events_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    kind LowCardinality(String),
    host LowCardinality(String),
    source LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    started_at DateTime64(6, 'UTC'),
    ended_at DateTime64(6, 'UTC'),
    count UInt64,
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (kind, datastore, vm, event_id);
