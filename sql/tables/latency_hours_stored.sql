-- One row is one hour of one object: the latency of its slowest minute. It contains only maxima, which
-- duplicates of a replay do not change. `origin` is empty for esxtop.
-- Columns that every chart reads have a compression that is fast to read.
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
-- By month of the event's own time, but at most 64 partitions, because a file can contain any date.
PARTITION BY (toYear(hour) * 12 + toMonth(hour)) % 64
ORDER BY (object_class, host, device, hour, origin);
