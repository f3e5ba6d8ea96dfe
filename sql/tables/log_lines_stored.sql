-- One row is one line that an ESX host or a VM wrote.
-- The sort key is the line's identity; it serves "what did this host (or this VM) log, and when?"
-- Of two copies of a line, the one received first is kept, so a replay changes nothing.
-- A line of a file is identified by its place in the file (`generation`, `offset`), any other line by a hash of its
-- text. The hash has 32 bits, or 64 if the line's time has no fraction: many lines can share such a time.
-- A partition is a week of arrival, because the time in a line is not reliable. ClickHouse drops a whole part when all
-- its lines have expired. A line that is replayed in another week is in two partitions. Only FINAL removes the
-- duplicate, because parts of different partitions are never merged.
-- docs/decisions/0027 has the measurements behind codecs, columns and index.
CREATE TABLE IF NOT EXISTS log_lines_stored
(
    event_time DateTime64(6, 'UTC') CODEC(GCD, Delta, T64, ZSTD(3)),
    source LowCardinality(String),
    program LowCardinality(String),
    host LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    severity LowCardinality(String),
    thread LowCardinality(String) CODEC(ZSTD(3)),
    op_id String CODEC(ZSTD(3)),
    message String CODEC(ZSTD(3)),
    peer LowCardinality(String),
    file LowCardinality(String),
    generation LowCardinality(String),
    offset UInt64 CODEC(Delta, T64, ZSTD(3)),
    line_bytes UInt32 CODEC(T64, ZSTD(3)),
    run_id LowCardinality(String),
    time_quality LowCardinality(String),
    truncated Bool,
    unsearched Bool,
    vm_name LowCardinality(String),
    vm_id LowCardinality(String),
    stamped_at Nullable(DateTime64(6, 'UTC')),
    -- The next four columns exist only while a row is inserted. Every insert sets the first two, which become
    -- `received_at` and `head`.
    given_received_at DateTime64(6, 'UTC') EPHEMERAL,
    given_head String EPHEMERAL,
    delay_ms Int64 EPHEMERAL toUnixTimestamp64Milli(given_received_at) - toUnixTimestamp64Milli(event_time),
    -- Minutes, seconds and milliseconds are the same in all time zones of whole hours.
    short_head String EPHEMERAL replaceOne(
        replaceOne(
            replaceOne(
                replaceOne(given_head, substring(toString(event_time), 14, 10), '\x01'),
                substring(toString(event_time), 14, 6), '\x02'
            ),
            if(thread = '', '\x03', toString(thread)), '\x03'
        ),
        if(op_id = '', '\x04', op_id), '\x04'
    ),
    -- The head without what other columns contain: \x01 and \x02 are for the time, \x03 for `thread`, \x04 for `op_id`.
    -- If a head cannot be rebuilt byte by byte, it is stored verbatim after \0.
    head_form String DEFAULT if(
        replaceOne(
            replaceOne(
                replaceOne(
                    replaceOne(short_head, '\x04', op_id),
                    '\x03', thread
                ),
                '\x02', substring(toString(event_time), 14, 6)
            ),
            '\x01', substring(toString(event_time), 14, 10)
        ) = given_head AND NOT startsWith(short_head, '\0'),
        short_head,
        concat('\0', given_head)
    ) CODEC(ZSTD(3)),
    line_hash UInt64 DEFAULT multiIf(
        generation != '', 0,
        toUnixTimestamp64Micro(event_time) % 1000000 = 0, cityHash64(concat(given_head, message)),
        cityHash64(concat(given_head, message)) % 0x100000000
    ) CODEC(T64, ZSTD(3)),
    -- Higher for an earlier arrival, with milliseconds. Delays of less than an hour are stored as delay, which is
    -- smallest for live lines, others as arrival, which is smallest for replayed lines.
    first_wins UInt64 DEFAULT toUInt64(
        if(delay_ms < 3600000, 0x7000000000000000 - delay_ms, 0x3000000000000000 - toUnixTimestamp64Milli(given_received_at))
    ) CODEC(T64, ZSTD(3)),
    received_on Date DEFAULT toDate(given_received_at),
    received_at DateTime64(6, 'UTC') ALIAS fromUnixTimestamp64Milli(
        if(
            first_wins > 0x5000000000000000,
            toUnixTimestamp64Milli(event_time) + 0x7000000000000000 - toInt64(first_wins),
            0x3000000000000000 - toInt64(first_wins)
        ),
        'UTC'
    ),
    head String ALIAS if(
        startsWith(head_form, '\0'),
        substring(head_form, 2),
        replaceOne(
            replaceOne(
                replaceOne(replaceOne(head_form, '\x04', op_id), '\x03', thread),
                '\x02', substring(toString(event_time), 14, 6)
            ),
            '\x01', substring(toString(event_time), 14, 10)
        )
    ),
    INDEX times event_time TYPE minmax,
    INDEX words tokens(lower(message), 'splitByNonAlpha') TYPE bloom_filter(0.001) GRANULARITY 1
)
ENGINE = ReplacingMergeTree(first_wins)
PARTITION BY toMonday(received_on)
PRIMARY KEY (source, program, host, datastore, vm, event_time)
ORDER BY (source, program, host, datastore, vm, event_time, generation, offset, line_hash)
SETTINGS ttl_only_drop_parts = 1;
