-- One row is one line that an ESX host or a VM wrote.
-- The sort key is the line's identity; it serves "what did this host (or this VM) log, and when?"
-- and packs best, because neighbouring lines resemble each other. Of two copies of a line the one
-- that was received first stays, so that a replay changes nothing.
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
    vm_name LowCardinality(String),
    vm_id LowCardinality(String),
    line_hash UInt64 MATERIALIZED cityHash64(head, message),
    first_wins UInt64 MATERIALIZED 0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Micro(received_at),
    INDEX words message TYPE text(tokenizer = 'splitByNonAlpha', preprocessor = lower(message))
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toYYYYMM(event_time)
PRIMARY KEY (source, program, host, datastore, vm, event_time)
ORDER BY (source, program, host, datastore, vm, event_time, offset, line_hash);
