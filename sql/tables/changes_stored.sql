-- One row is one recorded change of the fleet in its newest version: a path policy, a firmware, …
-- The sort key is its identity; there are few rows. Only `stunwatch change` writes here.
CREATE TABLE IF NOT EXISTS changes_stored
(
    change_id UUID,
    changed_at DateTime64(3, 'UTC'),
    kind LowCardinality(String),
    title String,
    host LowCardinality(String),
    device LowCardinality(String),
    datastore LowCardinality(String),
    is_deleted UInt8,
    noted_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(noted_at, is_deleted)
ORDER BY change_id;
