-- One row is one revision of one incident; the highest revision counts.
-- The sort key is its identity: there are few rows, and every query reads all of them.
-- `detected_at` is event time: when the incident was first visible in the lines so far. `written_at` is when Kafka
-- received the row; retention uses it.
CREATE TABLE IF NOT EXISTS incidents_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    written_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    opened_at DateTime64(6, 'UTC'),
    closed_at Nullable(DateTime64(6, 'UTC')),
    state LowCardinality(String),
    suspect LowCardinality(String),
    scope LowCardinality(String),
    verdict String,
    confidence LowCardinality(String),
    next_steps Array(Tuple(step String, because String, kb Nullable(String), against Nullable(String), evidence_ids Array(UUID), precondition Nullable(String), risk_level Nullable(String), risk Nullable(String))), -- noqa: CP01,LT05
    hosts Array(String),
    devices Array(String),
    paths Array(String),
    datastores Array(String),
    vms Array(String),
    reporting_hosts UInt32,
    missing Array(String),
    stun_count UInt64,
    worst_stun_us UInt64,
    conflict_count UInt64,
    failed_command_count Nullable(UInt64),
    peak_davg_ms Nullable(Float64),
    peak_ms Nullable(Float64),
    peak_metric Nullable(String),
    peak_source Nullable(String),
    severity LowCardinality(String),
    evidence_ids Array(UUID),
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(written_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY event_id;
