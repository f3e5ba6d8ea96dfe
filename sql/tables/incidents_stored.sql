-- One row is what is known of one incident at one revision; the highest revision is the incident.
-- The sort key is its identity: there are few of them, and every question reads them all.
-- `detected_at` is event time: when the lines so far could first show it; `written_at` is when Kafka
-- got the row, by which it is kept.
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
    scope LowCardinality(String),
    verdict String,
    confidence LowCardinality(String),
    next_steps Array(Tuple(step String, because String, kb Nullable(String), against Nullable(String))), -- noqa: CP01
    hosts Array(String),
    devices Array(String),
    datastores Array(String),
    vms Array(String),
    reporting_hosts UInt32,
    missing Array(String),
    stun_count UInt64,
    worst_stun_us UInt64,
    conflict_count UInt64,
    peak_davg_ms Nullable(Float64),
    severity LowCardinality(String),
    evidence_ids Array(UUID),
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(written_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY event_id;
