-- One row is five minutes in which any source sent live lines.
-- The sort key is its identity; it serves "when did no line arrive at all?"
CREATE TABLE IF NOT EXISTS activity_intervals_stored
(
    bucket DateTime('UTC'),
    first_received_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')),
    last_received_at SimpleAggregateFunction(max, DateTime64(6, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY bucket
TTL bucket + INTERVAL 30 DAY;
