-- One row is what is known of one latency episode at one revision; the highest revision is it.
-- The sort key is made of the episode's identity; it serves "when was this device slow, and for
-- which hosts?" The host is no part of it: a later revision may name it more fully.
-- Its first moment is, so no revision of an episode lies in another month.
-- Equal revisions are equal events: of these the one detected first stays.
CREATE TABLE IF NOT EXISTS latency_episodes_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    object_class LowCardinality(String),
    device LowCardinality(String),
    metric LowCardinality(String),
    origin LowCardinality(String),
    kind LowCardinality(String),
    started_at DateTime64(6, 'UTC'),
    ended_at Nullable(DateTime64(6, 'UTC')),
    threshold_ms Nullable(Float64),
    peak_ms Float64,
    mean_ms Float64,
    baseline_ms Nullable(Float64),
    samples UInt32,
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY toYYYYMM(started_at)
ORDER BY (device, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in months that are over.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
