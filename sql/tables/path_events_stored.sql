-- One row is one revision of one loss or recovery of storage; the highest revision counts. The sort key
-- serves "which paths of this host died?". It has the host's first label, as in reservation_conflicts_stored.
-- The identity contains the start, so all revisions are in the same month.
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
    host_label LowCardinality(String) MATERIALIZED lower(splitByChar('.', toString(host))[1]),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at)),
    INDEX hosts host TYPE bloom_filter,
    INDEX devices device TYPE bloom_filter
)
ENGINE = ReplacingMergeTree(version, is_deleted)
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(started_at) * 12 + toMonth(started_at)) % 64
ORDER BY (host_label, kind, event_id)
-- As in stuns_by_time_stored: FINAL costs nothing in past months.
SETTINGS min_age_to_force_merge_seconds = 600, min_age_to_force_merge_on_partition_only = 1;
