-- One row is one stun at one revision, as in stuns_stored; the highest revision is the stun.
-- The sort key serves "what happened when?": dashboards ask for spans of time, and stuns_stored is
-- ordered by VM. A stun's end is part of its identity, so no revision of it lies in another month.
-- What every chart reads is packed so that it is unpacked fast.
CREATE TABLE IF NOT EXISTS stuns_by_time_stored
(
    event_id UUID,
    version UInt128,
    is_deleted UInt8,
    run_id LowCardinality(String),
    host LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    ended_at DateTime64(6, 'UTC') CODEC(Delta, LZ4),
    duration_us UInt64 CODEC(LZ4),
    cause LowCardinality(String),
    severity LowCardinality(String),
    evidence Array(String) CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
PARTITION BY toYYYYMM(ended_at)
ORDER BY (toStartOfHour(ended_at), datastore, vm, event_id)
-- A month that nothing was added to for ten minutes becomes one part: FINAL then costs nothing.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
