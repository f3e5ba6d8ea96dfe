-- One row is what is known of one reservation conflict at one revision; the highest is the conflict.
-- The sort key is its identity; it serves "which count-downs were there?". The host is not part of
-- it: a later revision may know its fuller name. The first moment is, so no revision of a conflict lies
-- in another month.
-- Equal revisions are equal events: of these the one detected first stays.
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
    dialect LowCardinality(String),
    is_stuck Bool,
    is_expected Bool,
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY toYYYYMM(started_at)
ORDER BY (dialect, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in months that are over.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
