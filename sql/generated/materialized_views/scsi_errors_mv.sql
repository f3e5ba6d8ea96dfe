-- Generated from schemas/scsi_error.yaml by `make generate`.
-- noqa: disable=AL03
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
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'device') AS device,
    tupleElement(event, 'path') AS path,
    tupleElement(event, 'opcode') AS opcode,
    tupleElement(event, 'host_status') AS host_status,
    tupleElement(event, 'device_status') AS device_status,
    tupleElement(event, 'plugin_status') AS plugin_status,
    tupleElement(event, 'sense') AS sense,
    tupleElement(event, 'is_expected') AS is_expected,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'count') AS count,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.scsi' AND fault = '';
