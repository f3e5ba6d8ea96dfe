-- Generated from schemas/quality_event.yaml by `make generate`.
-- noqa: disable=AL03
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
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'kind') AS kind,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'source') AS source,
    tupleElement(event, 'vm') AS vm,
    tupleElement(event, 'datastore') AS datastore,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'count') AS count,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.quality' AND fault = '';
