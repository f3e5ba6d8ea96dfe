-- Generated from schemas/stun.yaml by `make generate`.
-- noqa: disable=AL03
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
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'vm') AS vm,
    tupleElement(event, 'datastore') AS datastore,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'duration_us') AS duration_us,
    tupleElement(event, 'reported_us') AS reported_us,
    tupleElement(event, 'measured_by') AS measured_by,
    tupleElement(event, 'cause') AS cause,
    tupleElement(event, 'cause_detail') AS cause_detail,
    tupleElement(event, 'op_id') AS op_id,
    tupleElement(event, 'migration_id') AS migration_id,
    tupleElement(event, 'switchover_us') AS switchover_us,
    tupleElement(event, 'is_quiesced') AS is_quiesced,
    tupleElement(event, 'is_cbt') AS is_cbt,
    tupleElement(event, 'severity') AS severity,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.stun' AND fault = '';
