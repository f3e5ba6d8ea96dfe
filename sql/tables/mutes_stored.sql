-- One row is one silence in its newest version: no alerts for these names until it expires or is removed. Each
-- non-empty host, device and datastore is silenced separately.
-- The sort key is its identity; there are few rows. `stunwatch incident` and `stunwatch demo` write here. Silences
-- of hosts in maintenance mode exist only in the view, until somebody removes one.
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
