-- Generated from schemas/scsi_error.yaml by `make generate`.
CREATE MATERIALIZED VIEW IF NOT EXISTS scsi_errors_mv TO scsi_errors_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        host String,
        device String,
        path String,
        opcode String,
        host_status String,
        device_status String,
        plugin_status String,
        sense String,
        is_expected Bool,
        started_at String,
        ended_at String,
        count UInt64,
        evidence Array(String)
    )') AS event
SELECT
    event.event_id AS event_id,
    event.revision AS revision,
    event.is_deleted AS is_deleted,
    topic_time AS detected_at,
    event.run_id AS run_id,
    event.host AS host,
    event.device AS device,
    event.path AS path,
    event.opcode AS opcode,
    event.host_status AS host_status,
    event.device_status AS device_status,
    event.plugin_status AS plugin_status,
    event.sense AS sense,
    event.is_expected AS is_expected,
    parseDateTime64BestEffortOrZero(event.started_at, 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(event.ended_at, 6, 'UTC') AS ended_at,
    event.count AS count,
    event.evidence AS evidence
FROM events
WHERE topic = 'events.scsi' AND fault = '';
