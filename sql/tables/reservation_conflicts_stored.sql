-- One row is one revision of one reservation conflict; the highest revision counts.
-- The sort key serves "which count-downs did this host have?". It has the host's first label, because a later
-- revision can have the host's full name; the first label is a part of the identity.
-- The identity contains the start, so all revisions of a conflict are in the same month.
-- Events with equal revisions are equal; the one detected first is kept.
CREATE TABLE IF NOT EXISTS reservation_conflicts_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    world_id Nullable(UInt64),
    opcode Nullable(String),
    first_remaining Nullable(UInt32),
    last_remaining Nullable(UInt32),
    steps UInt32,
    started_at DateTime64(6, 'UTC'),
    ended_at DateTime64(6, 'UTC'),
    duration_ms UInt64,
    eta_ms Nullable(UInt64),
    outcome LowCardinality(String),
    device LowCardinality(String),
    path LowCardinality(String),
    datastore LowCardinality(String),
    dialect LowCardinality(String),
    is_stuck Bool,
    is_expected Bool,
    evidence Array(String) CODEC(ZSTD(1)),
    host_label LowCardinality(String) MATERIALIZED lower(splitByChar('.', toString(host))[1]),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at)),
    INDEX hosts host TYPE bloom_filter,
    INDEX devices device TYPE set(1000),
    INDEX paths path TYPE set(1000)
)
ENGINE = ReplacingMergeTree(version, is_deleted)
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(started_at) * 12 + toMonth(started_at)) % 64
ORDER BY (host_label, dialect, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in past months.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
