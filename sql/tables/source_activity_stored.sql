-- One row is five minutes in which a source of a host was heard, live.
-- The sort key serves "who fell silent?": a billion lines are not asked for it. Each day is a part of
-- its own: "when was anybody heard last?" reads but the newest.
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
