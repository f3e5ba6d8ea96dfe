-- One row is five minutes in which a source of a host sent live lines.
-- The sort key serves "which sources are silent?" without reading a billion lines. Each day is a separate
-- partition, so "when did anything send lines last?" reads only the newest.
CREATE TABLE IF NOT EXISTS source_activity_stored
(
    source LowCardinality(String),
    host LowCardinality(String),
    bucket DateTime('UTC'),
    first_received_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')),
    last_received_at SimpleAggregateFunction(max, DateTime64(6, 'UTC'))
)
ENGINE = AggregatingMergeTree
PARTITION BY toDate(bucket)
ORDER BY (source, host, bucket)
TTL bucket + INTERVAL 30 DAY;
