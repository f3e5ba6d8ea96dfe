-- Generated from schemas/path_event.yaml by `make generate`.
-- noqa: disable=AL03
CREATE MATERIALIZED VIEW IF NOT EXISTS path_events_mv TO path_events_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        host String,
        path String,
        device String,
        datastore String,
        kind String,
        started_at String,
        ended_at Nullable(String),
        evidence Array(String)
    )') AS event
SELECT
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'path') AS path,
    tupleElement(event, 'device') AS device,
    tupleElement(event, 'datastore') AS datastore,
    tupleElement(event, 'kind') AS kind,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrNull(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.path' AND fault = '';
