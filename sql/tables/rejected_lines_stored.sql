-- One row is one rejected line or Kafka message, verbatim and with the reason.
-- The sort key is its identity; it serves "which lines of this host were rejected?"
-- A partition is a month of arrival, as in log_lines_stored.
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
    offset UInt64,
    line_bytes UInt32,
    run_id LowCardinality(String),
    line String CODEC(ZSTD(1)),
    reason LowCardinality(String),
    line_hash UInt64 MATERIALIZED cityHash64(line),
    first_wins UInt64 MATERIALIZED 0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Micro(received_at)
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(received_at)
ORDER BY (source, host, generation, offset, line_hash, if(generation = '', file, ''));
