-- One row is what is known of one loss that a log itself tells, at one revision; the highest
-- revision is the event. What ClickHouse knows from what it stores is worked out in the view.
-- The sort key is its identity; it serves "whose log was throttled?"
-- Equal revisions are equal events: of these the one detected first stays.
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
