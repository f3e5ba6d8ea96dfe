-- One row is the usual latency of one object in one week, as quartiles of the logarithm: latency is
-- skewed, and an incident must not change the baseline. A duplicate sample hardly changes them.
-- `origin` is empty except for samples of vCenter, as in latency_samples_stored.
-- The sort key serves the view latency_episodes: "what is usual for this device?"
CREATE TABLE IF NOT EXISTS latency_baselines_stored
(
    object_class LowCardinality(String),
    host LowCardinality(String),
    device LowCardinality(String),
    metric LowCardinality(String),
    week Date,
    logarithms AggregateFunction(quantilesTDigest(0.25, 0.5, 0.75), Float64),
    origin LowCardinality(String)
)
ENGINE = AggregatingMergeTree
ORDER BY (object_class, host, device, metric, week, origin);
