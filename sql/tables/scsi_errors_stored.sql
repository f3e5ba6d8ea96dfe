-- One row is one revision of one episode of failed commands; the highest revision counts. The sort key is its
-- identity; it serves "what failed on this device?"
-- Events with equal revisions are equal; the one detected first is kept.
CREATE TABLE IF NOT EXISTS scsi_errors_stored
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    detected_at DateTime64(3, 'UTC'),
    run_id LowCardinality(String),
    host LowCardinality(String),
    device LowCardinality(String),
    path LowCardinality(String),
    opcode LowCardinality(String),
    host_status LowCardinality(String),
    device_status LowCardinality(String),
    plugin_status LowCardinality(String),
    sense LowCardinality(String),
    is_expected Bool,
    started_at DateTime64(6, 'UTC'),
    ended_at DateTime64(6, 'UTC'),
    count UInt64,
    evidence Array(String) CODEC(ZSTD(1)),
    version UInt128 MATERIALIZED bitShiftLeft(toUInt128(revision), 64)
        + (0xFFFFFFFFFFFFFFFF - toUnixTimestamp64Milli(detected_at))
)
ENGINE = ReplacingMergeTree(version, is_deleted)
ORDER BY (device, path, event_id);
