-- One row is one name of a host or VM in lines or samples, with the address of the sender.
-- The sort key is its identity; it serves "which names do hosts have?" and "which VMs are there?"
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
