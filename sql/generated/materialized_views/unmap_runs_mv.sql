-- Generated from schemas/unmap_run.yaml by `make generate`.
-- noqa: disable=AL03
CREATE MATERIALIZED VIEW IF NOT EXISTS unmap_runs_mv TO unmap_runs_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        host String,
        volume String,
        block_count UInt64,
        iterations UInt64,
        blocks_total UInt64,
        started_at String,
        ended_at String,
        duration_ms UInt64,
        blocks_per_second Nullable(Float64),
        fell_back Nullable(Bool),
        outcome String,
        evidence Array(String)
    )') AS event
SELECT
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'volume') AS volume,
    tupleElement(event, 'block_count') AS block_count,
    tupleElement(event, 'iterations') AS iterations,
    tupleElement(event, 'blocks_total') AS blocks_total,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'duration_ms') AS duration_ms,
    tupleElement(event, 'blocks_per_second') AS blocks_per_second,
    tupleElement(event, 'fell_back') AS fell_back,
    tupleElement(event, 'outcome') AS outcome,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.unmap' AND fault = '';
