-- One row is one mute as it was said last: nobody is alarmed of these names until it expires or is
-- lifted. Each of host, device and datastore that is not empty is muted for itself.
-- The sort key is its identity; there are few of them. `stunwatch incident` alone writes here: mutes
-- of hosts in maintenance are in the view alone until somebody lifts them.
CREATE TABLE IF NOT EXISTS mutes_stored
(
    mute_id UUID,
    host String,
    device String,
    datastore String,
    reason String,
    muted_by LowCardinality(String),
    muted_at DateTime64(3, 'UTC'),
    expires_at DateTime64(3, 'UTC'),
    lifted_at Nullable(DateTime64(3, 'UTC')),
    lifted_by LowCardinality(String),
    noted_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree(noted_at)
ORDER BY mute_id;
