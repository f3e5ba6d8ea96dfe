-- One row is one hour of one object: how slow its slowest minute was. Only maxima, so that a replay
-- changes nothing: what comes twice is the same maximum. `origin` is empty for esxtop's.
-- What every chart reads is packed so that it is unpacked fast.
-- The sort key is its identity; it serves "how slow was this device of this host, hour by hour?"
CREATE TABLE IF NOT EXISTS latency_hours_stored
(
    object_class LowCardinality(String),
    host LowCardinality(String),
    device LowCardinality(String),
    hour DateTime('UTC') CODEC(Delta, LZ4),
    worst_davg_ms SimpleAggregateFunction(max, Nullable(Float64)) CODEC(LZ4),
    peak_davg_ms SimpleAggregateFunction(max, Nullable(Float64)) CODEC(LZ4),
    worst_kavg_ms SimpleAggregateFunction(max, Nullable(Float64)) CODEC(LZ4),
    origin LowCardinality(String)
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (object_class, host, device, hour, origin);
