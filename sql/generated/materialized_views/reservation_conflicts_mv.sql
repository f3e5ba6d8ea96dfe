-- Generated from schemas/reservation_conflict.yaml by `make generate`.
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
    event.event_id AS event_id,
    event.revision AS revision,
    event.is_deleted AS is_deleted,
    topic_time AS detected_at,
    event.run_id AS run_id,
    event.host AS host,
    event.world_id AS world_id,
    event.opcode AS opcode,
    event.first_remaining AS first_remaining,
    event.last_remaining AS last_remaining,
    event.steps AS steps,
    parseDateTime64BestEffortOrZero(event.started_at, 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(event.ended_at, 6, 'UTC') AS ended_at,
    event.duration_ms AS duration_ms,
    event.eta_ms AS eta_ms,
    event.outcome AS outcome,
    event.device AS device,
    event.path AS path,
    event.datastore AS datastore,
    event.dialect AS dialect,
    event.is_stuck AS is_stuck,
    event.is_expected AS is_expected,
    event.evidence AS evidence
FROM events
WHERE topic = 'events.reservation' AND fault = '';
