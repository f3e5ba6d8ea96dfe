-- One row is what one host said of one thing (an extent, a device, a name, …) at one moment.
-- The sort key is its identity; it serves "what was known of this host's LUN, and when?"
CREATE TABLE IF NOT EXISTS inventory_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    kind LowCardinality(String),
    told_by LowCardinality(String),
    observed_at DateTime64(6, 'UTC'),
    device LowCardinality(String),
    partition Nullable(UInt32),
    datastore_uuid LowCardinality(String),
    datastore LowCardinality(String),
    alias String,
    vm String,
    path String,
    vendor LowCardinality(Nullable(String)),
    model LowCardinality(Nullable(String)),
    size_mb Nullable(UInt64),
    is_ssd Nullable(Bool),
    is_local Nullable(Bool),
    is_boot Nullable(Bool),
    is_perennially_reserved Nullable(Bool),
    multipath_plugin LowCardinality(Nullable(String)),
    array_type LowCardinality(Nullable(String)),
    path_policy LowCardinality(Nullable(String)),
    path_policy_config LowCardinality(Nullable(String)),
    vaai LowCardinality(Nullable(String)),
    vaai_ats LowCardinality(Nullable(String)),
    vaai_clone LowCardinality(Nullable(String)),
    vaai_zero LowCardinality(Nullable(String)),
    vaai_delete LowCardinality(Nullable(String)),
    transport LowCardinality(Nullable(String)),
    paths Array(String),
    targets Array(String),
    other_names Array(String),
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (kind, host, device, event_id);
