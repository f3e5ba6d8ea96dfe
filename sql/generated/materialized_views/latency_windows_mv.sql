-- Generated from schemas/latency_window.yaml by `make generate`.
-- noqa: disable=AL03
CREATE MATERIALIZED VIEW IF NOT EXISTS latency_windows_mv TO latency_windows_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        host String,
        object_class String,
        device String,
        origin String,
        window_seconds UInt32,
        window_start String,
        window_end String,
        avg_davg_ms Nullable(Float64),
        p95_davg_ms Nullable(Float64),
        max_davg_ms Nullable(Float64),
        avg_kavg_ms Nullable(Float64),
        max_kavg_ms Nullable(Float64),
        commands Nullable(Float64),
        samples UInt64
    )') AS event
SELECT
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'object_class') AS object_class,
    tupleElement(event, 'device') AS device,
    if(tupleElement(event, 'origin') = '', 'esxtop', tupleElement(event, 'origin')) AS origin,
    tupleElement(event, 'window_seconds') AS window_seconds,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'window_start'), 3, 'UTC') AS window_start,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'window_end'), 3, 'UTC') AS window_end,
    tupleElement(event, 'avg_davg_ms') AS avg_davg_ms,
    tupleElement(event, 'p95_davg_ms') AS p95_davg_ms,
    tupleElement(event, 'max_davg_ms') AS max_davg_ms,
    tupleElement(event, 'avg_kavg_ms') AS avg_kavg_ms,
    tupleElement(event, 'max_kavg_ms') AS max_kavg_ms,
    tupleElement(event, 'commands') AS commands,
    tupleElement(event, 'samples') AS samples
FROM events
WHERE topic = 'events.latency_window' AND fault = '';
