-- One row is one name that lines or samples carry: a host's, a VM's, and who sent them over the wire.
-- The sort key is its identity; it serves "which names do hosts go by?" and "which VMs are there?"
CREATE TABLE IF NOT EXISTS owners_seen_stored
(
    host LowCardinality(String),
    datastore LowCardinality(String),
    vm LowCardinality(String),
    peer LowCardinality(String),
    seen_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(seen_at)
ORDER BY (host, datastore, vm, peer);
