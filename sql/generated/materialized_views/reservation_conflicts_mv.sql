-- Generated from schemas/reservation_conflict.yaml by `make generate`.
-- noqa: disable=AL03
CREATE MATERIALIZED VIEW IF NOT EXISTS reservation_conflicts_mv TO reservation_conflicts_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        host String,
        world_id Nullable(UInt64),
        opcode Nullable(String),
        first_remaining Nullable(UInt32),
        last_remaining Nullable(UInt32),
        steps UInt32,
        started_at String,
        ended_at String,
        duration_ms UInt64,
        eta_ms Nullable(UInt64),
        outcome String,
        device String,
        path String,
        datastore String,
        dialect String,
        is_stuck Bool,
        is_expected Bool,
        evidence Array(String)
    )') AS event
SELECT
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'world_id') AS world_id,
    tupleElement(event, 'opcode') AS opcode,
    tupleElement(event, 'first_remaining') AS first_remaining,
    tupleElement(event, 'last_remaining') AS last_remaining,
    tupleElement(event, 'steps') AS steps,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'duration_ms') AS duration_ms,
    tupleElement(event, 'eta_ms') AS eta_ms,
    tupleElement(event, 'outcome') AS outcome,
    tupleElement(event, 'device') AS device,
    tupleElement(event, 'path') AS path,
    tupleElement(event, 'datastore') AS datastore,
    tupleElement(event, 'dialect') AS dialect,
    tupleElement(event, 'is_stuck') AS is_stuck,
    tupleElement(event, 'is_expected') AS is_expected,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.reservation' AND fault = '';
