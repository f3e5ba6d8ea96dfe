-- Generated from schemas/quality_event.yaml by `make generate`.
CREATE MATERIALIZED VIEW IF NOT EXISTS quality_events_mv TO quality_events_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        kind String,
        host String,
        source String,
        vm String,
        datastore String,
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
    event.kind AS kind,
    event.host AS host,
    event.source AS source,
    event.vm AS vm,
    event.datastore AS datastore,
    parseDateTime64BestEffortOrZero(event.started_at, 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(event.ended_at, 6, 'UTC') AS ended_at,
    event.count AS count,
    event.evidence AS evidence
FROM events
WHERE topic = 'events.quality' AND fault = '';
