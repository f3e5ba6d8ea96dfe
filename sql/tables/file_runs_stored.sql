-- One row is one run: neighbouring lines of a file that arrived in one block on one day, with no missing bytes between.
-- The runs of a file may overlap, because lines may arrive again.
-- The sort key is its identity; it serves the view coverage: "which bytes of this file did not arrive?" without
-- reading the lines. Of two equal runs, the one received first is kept. A run expires with its lines (schemas).
CREATE TABLE IF NOT EXISTS file_runs_stored
(
    generation String,
    run_from UInt64 CODEC(Delta, ZSTD(1)),
    run_to UInt64 CODEC(Delta, ZSTD(1)),
    lines UInt64 CODEC(T64, ZSTD(1)),
    source LowCardinality(String),
    host LowCardinality(String),
    vm LowCardinality(String),
    datastore LowCardinality(String),
    file LowCardinality(String),
    last_event_time Nullable(DateTime64(6, 'UTC')) CODEC(Delta, ZSTD(1)),
    last_received_at DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    first_wins UInt64 MATERIALIZED 0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(last_received_at)
        CODEC(Delta, ZSTD(1))
)
ENGINE = ReplacingMergeTree(first_wins)
ORDER BY (generation, run_from, run_to)
TTL toDateTime(last_received_at) + toIntervalDay(if(source = 'esxtop', 90, 30));
