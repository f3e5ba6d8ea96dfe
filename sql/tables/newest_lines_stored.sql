-- One row is one source: when its newest live line arrived, by Kafka's clock, and the time in that line.
-- The sort key serves "do lines still arrive?". There are few rows and no TTL: after months without lines,
-- the pipeline must not look like one that never received a live line.
CREATE TABLE IF NOT EXISTS newest_lines_stored
(
    source LowCardinality(String),
    arrived_at DateTime64(3, 'UTC'),
    line_at DateTime64(6, 'UTC')
)
ENGINE = ReplacingMergeTree(arrived_at)
ORDER BY source;
