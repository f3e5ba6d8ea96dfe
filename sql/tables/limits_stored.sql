-- One row is one limit from the settings that views need; `up` writes it. The sort key is its identity.
CREATE TABLE IF NOT EXISTS limits_stored
(
    name LowCardinality(String),
    value UInt64,
    set_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(set_at)
ORDER BY name;
