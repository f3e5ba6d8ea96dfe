-- Generated from schemas/latency_episode.yaml by `make generate`.
-- noqa: disable=AL03
CREATE MATERIALIZED VIEW IF NOT EXISTS latency_episodes_mv TO latency_episodes_stored
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
        metric String,
        origin String,
        kind String,
        started_at String,
        ended_at Nullable(String),
        threshold_ms Nullable(Float64),
        peak_ms Float64,
        mean_ms Float64,
        baseline_ms Nullable(Float64),
        samples UInt32,
        evidence Array(String)
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
    tupleElement(event, 'metric') AS metric,
    tupleElement(event, 'origin') AS origin,
    tupleElement(event, 'kind') AS kind,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrNull(tupleElement(event, 'ended_at'), 6, 'UTC') AS ended_at,
    tupleElement(event, 'threshold_ms') AS threshold_ms,
    tupleElement(event, 'peak_ms') AS peak_ms,
    tupleElement(event, 'mean_ms') AS mean_ms,
    tupleElement(event, 'baseline_ms') AS baseline_ms,
    tupleElement(event, 'samples') AS samples,
    tupleElement(event, 'evidence') AS evidence
FROM events
WHERE topic = 'events.latency' AND fault = '';
