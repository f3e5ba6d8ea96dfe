-- One row is one rejected line or Kafka message, verbatim and with the reason.
-- The sort key is its identity; it serves "which lines of this host were rejected?"
-- A line of a file needs no hash, because its place in the file identifies it. The others have no time, so their hash
-- has 64 bits. A partition is a week of arrival, as in log_lines_stored.
-- A rejected Kafka message has no generation; its `file` is its topic and partition.
CREATE TABLE IF NOT EXISTS rejected_lines_stored
(
    received_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    source LowCardinality(String),
    host LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    peer LowCardinality(String),
    file LowCardinality(String),
    generation LowCardinality(String),
    offset UInt64 CODEC(Delta, T64, ZSTD(3)),
    line_bytes UInt32 CODEC(T64, ZSTD(3)),
    run_id LowCardinality(String),
    line String CODEC(ZSTD(3)),
    reason LowCardinality(String),
    line_hash UInt64 MATERIALIZED if(generation != '', 0, cityHash64(line)) CODEC(ZSTD(3)),
    first_wins UInt64 MATERIALIZED 0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Micro(received_at)
    CODEC(Delta, ZSTD(3)),
    received_on Date DEFAULT toDate(received_at)
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toMonday(received_on)
ORDER BY (source, host, generation, offset, line_hash, if(generation = '', file, ''))
SETTINGS ttl_only_drop_parts = 1;
