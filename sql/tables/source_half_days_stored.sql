-- One row is half a day (UTC) of a source of a host: in which of its 144 intervals of five minutes live lines arrived,
-- as bits, and when the last line arrived. It has a hundredth of the rows of source_activity_stored.
-- The sort key is its identity; it serves "which sources are silent, and which ever paused?"
CREATE TABLE IF NOT EXISTS source_half_days_stored
(
    source LowCardinality(String),
    host LowCardinality(String),
    half_day DateTime('UTC'),
    first_bucket SimpleAggregateFunction(min, DateTime('UTC')),
    intervals SimpleAggregateFunction(groupBitOr, UInt256),
    last_received_at SimpleAggregateFunction(max, DateTime64(6, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (source, host, half_day)
TTL half_day + INTERVAL 30 DAY;
