-- Generated from schemas/snapshot_operation.yaml by `make generate`.
-- noqa: disable=AL03
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
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'vm') AS vm,
    tupleElement(event, 'datastore') AS datastore,
    tupleElement(event, 'kind') AS kind,
    tupleElement(event, 'name') AS name,
    tupleElement(event, 'op_id') AS op_id,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrNull(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'duration_ms') AS duration_ms,
    tupleElement(event, 'outcome') AS outcome,
    tupleElement(event, 'iterations') AS iterations,
    tupleElement(event, 'helper_sizes') AS helper_sizes,
    tupleElement(event, 'is_converging') AS is_converging,
    tupleElement(event, 'delta_bytes') AS delta_bytes,
    tupleElement(event, 'pages') AS pages,
    tupleElement(event, 'lazy_io_ms') AS lazy_io_ms,
    tupleElement(event, 'pages_per_second') AS pages_per_second,
    tupleElement(event, 'formula_ms') AS formula_ms,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.snapshot' AND fault = '';
