-- Generated from schemas/snapshot_operation.yaml by `make generate`.
CREATE MATERIALIZED VIEW IF NOT EXISTS snapshot_operations_mv TO snapshot_operations_stored
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
        kind String,
        name String,
        op_id String,
        started_at String,
        ended_at Nullable(String),
        duration_ms Nullable(UInt64),
        outcome String,
        iterations UInt32,
        helper_sizes Array(UInt64),
        is_converging Nullable(Bool),
        delta_bytes Nullable(UInt64),
        pages Nullable(UInt64),
        lazy_io_ms Nullable(UInt64),
        pages_per_second Nullable(Float64),
        formula_ms Nullable(UInt64),
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
    event.kind AS kind,
    event.name AS name,
    event.op_id AS op_id,
    parseDateTime64BestEffortOrZero(event.started_at, 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrNull(event.ended_at, 6, 'UTC') AS ended_at,
    event.duration_ms AS duration_ms,
    event.outcome AS outcome,
    event.iterations AS iterations,
    event.helper_sizes AS helper_sizes,
    event.is_converging AS is_converging,
    event.delta_bytes AS delta_bytes,
    event.pages AS pages,
    event.lazy_io_ms AS lazy_io_ms,
    event.pages_per_second AS pages_per_second,
    event.formula_ms AS formula_ms,
    event.evidence AS evidence
FROM events
WHERE topic = 'events.snapshot' AND fault = '';
