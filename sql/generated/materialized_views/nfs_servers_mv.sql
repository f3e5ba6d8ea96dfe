-- Generated from schemas/nfs_server.yaml by `make generate`.
-- noqa: disable=AL03
CREATE MATERIALIZED VIEW IF NOT EXISTS nfs_servers_mv TO nfs_servers_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        host String,
        server String,
        share String,
        datastore_uuid String,
        datastore String,
        started_at String,
        ended_at Nullable(String),
        duration_ms Nullable(UInt64),
        evidence Array(String)
    )') AS event
SELECT
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'server') AS server,
    tupleElement(event, 'share') AS share,
    tupleElement(event, 'datastore_uuid') AS datastore_uuid,
    tupleElement(event, 'datastore') AS datastore,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrNull(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'duration_ms') AS duration_ms,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.nfs' AND fault = '';
