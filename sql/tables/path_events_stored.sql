-- One row is one revision of one loss or recovery of storage; the highest revision counts. The sort key is
-- its identity; it serves "which paths died?"
-- Events with equal revisions are equal; the one detected first is kept.
CREATE TABLE IF NOT EXISTS path_events_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    path LowCardinality(String),
    device LowCardinality(String),
    datastore LowCardinality(String),
    kind LowCardinality(String),
    started_at DateTime64(6, 'UTC'),
    ended_at Nullable(DateTime64(6, 'UTC')),
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (kind, event_id);
