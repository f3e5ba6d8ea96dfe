-- Generated from schemas/path_event.yaml by `make generate`.
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
    event.event_id AS event_id,
    event.revision AS revision,
    event.is_deleted AS is_deleted,
    topic_time AS detected_at,
    event.run_id AS run_id,
    event.host AS host,
    event.path AS path,
    event.device AS device,
    event.datastore AS datastore,
    event.kind AS kind,
    parseDateTime64BestEffortOrZero(event.started_at, 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrNull(event.ended_at, 6, 'UTC') AS ended_at,
    event.evidence AS evidence
FROM events
WHERE topic = 'events.path' AND fault = '';
