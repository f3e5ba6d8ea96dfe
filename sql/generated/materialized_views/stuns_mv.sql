-- Generated from schemas/stun.yaml by `make generate`.
CREATE MATERIALIZED VIEW IF NOT EXISTS stuns_mv TO stuns_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        host String,
        vm String,
        datastore String,
        started_at String,
        ended_at String,
        duration_us UInt64,
        reported_us Nullable(UInt64),
        measured_by String,
        cause String,
        cause_detail String,
        op_id String,
        migration_id Nullable(String),
        switchover_us Nullable(UInt64),
        is_quiesced Nullable(Bool),
        is_cbt Nullable(Bool),
        severity String,
        evidence Array(String)
    )') AS event
SELECT
    event.event_id AS event_id,
    event.revision AS revision,
    event.is_deleted AS is_deleted,
    topic_time AS detected_at,
    event.run_id AS run_id,
    event.host AS host,
    event.vm AS vm,
    event.datastore AS datastore,
    parseDateTime64BestEffortOrZero(event.started_at, 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(event.ended_at, 6, 'UTC') AS ended_at,
    event.duration_us AS duration_us,
    event.reported_us AS reported_us,
    event.measured_by AS measured_by,
    event.cause AS cause,
    event.cause_detail AS cause_detail,
    event.op_id AS op_id,
    event.migration_id AS migration_id,
    event.switchover_us AS switchover_us,
    event.is_quiesced AS is_quiesced,
    event.is_cbt AS is_cbt,
    event.severity AS severity,
    event.evidence AS evidence
FROM events
WHERE topic = 'events.stun' AND fault = '';
