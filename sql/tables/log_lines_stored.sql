-- One row is one line that an ESX host or a VM wrote.
-- The sort key is the line's identity; it serves "what did this host (or this VM) log, and when?"
-- It also compresses best, because neighbouring lines are similar. Of two copies of a line, the one
-- received first is kept, so a replay changes nothing.
-- A partition is a month of arrival, because the time in a line is not reliable. A line that is replayed in another
-- month is in two partitions. Only FINAL removes the duplicate, because parts of different partitions are never merged.
CREATE TABLE IF NOT EXISTS log_lines_stored
(
    event_time DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    received_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    source LowCardinality(String),
    program LowCardinality(String),
    host LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    severity LowCardinality(String),
    thread LowCardinality(String),
    op_id String CODEC(ZSTD(1)),
    head String CODEC(ZSTD(1)),
    message String CODEC(ZSTD(1)),
    peer LowCardinality(String),
    file LowCardinality(String),
    generation LowCardinality(String),
    offset UInt64 CODEC(Delta, ZSTD(1)),
    line_bytes UInt32 CODEC(T64, ZSTD(1)),
    run_id LowCardinality(String),
    time_quality LowCardinality(String),
    truncated Bool,
    unsearched Bool,
    vm_name LowCardinality(String),
    vm_id LowCardinality(String),
    stamped_at Nullable(DateTime64(6, 'UTC')),
    line_hash UInt64 MATERIALIZED cityHash64(concat(head, message)),
    first_wins UInt64 MATERIALIZED 0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Micro(received_at),
    INDEX times event_time TYPE minmax,
    INDEX words message TYPE text(tokenizer = 'splitByNonAlpha', preprocessor = lower(message))
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(received_at)
PRIMARY KEY (source, program, host, datastore, vm, event_time)
ORDER BY (source, program, host, datastore, vm, event_time, offset, line_hash);
