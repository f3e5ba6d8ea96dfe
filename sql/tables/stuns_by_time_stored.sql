-- One row is one revision of one stun, as in stuns_stored; the highest revision counts.
-- The sort key serves "what happened when?": dashboards query time ranges, and stuns_stored is sorted by VM.
-- A stun's end is part of its identity, so all its revisions are in the same month.
-- Columns that every chart reads have a compression that is fast to read.
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
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(ended_at) * 12 + toMonth(ended_at)) % 64
ORDER BY (toStartOfHour(ended_at), datastore, vm, event_id)
-- After ten minutes without inserts, a month is merged into one part. FINAL then costs nothing.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
