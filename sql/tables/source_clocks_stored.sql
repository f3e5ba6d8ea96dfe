-- One row is one hour of live lines of a source of a host: the differences between their times and their arrival.
-- The sort key serves "whose clock is wrong, whose lines are late?". Lines are counted by a hash, so a line that
-- Kafka delivers twice counts once.
CREATE TABLE IF NOT EXISTS source_clocks_stored
(
    source LowCardinality(String),
    host LowCardinality(String),
    hour DateTime('UTC'),
    first_received_at SimpleAggregateFunction(min, DateTime64(6, 'UTC')),
    last_received_at SimpleAggregateFunction(max, DateTime64(6, 'UTC')),
    delays_s AggregateFunction(quantilesBFloat16(0.1, 0.5, 0.9), Float64),
    ahead_lines AggregateFunction(uniqCombined64, UInt64),
    ahead_first_at SimpleAggregateFunction(min, Nullable(DateTime64(6, 'UTC'))),
    ahead_last_at SimpleAggregateFunction(max, Nullable(DateTime64(6, 'UTC'))),
    ahead_evidence AggregateFunction(groupUniqArray(3), String),
    late_lines AggregateFunction(uniqCombined64, UInt64),
    late_first_at SimpleAggregateFunction(min, Nullable(DateTime64(6, 'UTC'))),
    late_last_at SimpleAggregateFunction(max, Nullable(DateTime64(6, 'UTC'))),
    late_evidence AggregateFunction(groupUniqArray(3), String),
    behind_lines AggregateFunction(uniqCombined64, UInt64),
    behind_evidence AggregateFunction(groupUniqArray(3), String),
    doubted_lines AggregateFunction(uniqCombined64, UInt64),
    doubted_evidence AggregateFunction(groupUniqArray(3), String)
)
ENGINE = AggregatingMergeTree
ORDER BY (source, host, hour)
TTL hour + INTERVAL 30 DAY;
