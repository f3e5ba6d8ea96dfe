-- Generated from schemas/latency_episode.yaml by `make generate`.
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
    event.event_id AS event_id,
    event.revision AS revision,
    event.is_deleted AS is_deleted,
    topic_time AS detected_at,
    event.run_id AS run_id,
    event.host AS host,
    event.object_class AS object_class,
    event.device AS device,
    event.metric AS metric,
    event.origin AS origin,
    event.kind AS kind,
    parseDateTime64BestEffortOrZero(event.started_at, 6, 'UTC') AS started_at,
    parseDateTime64BestEffortOrNull(event.ended_at, 6, 'UTC') AS ended_at,
    event.threshold_ms AS threshold_ms,
    event.peak_ms AS peak_ms,
    event.mean_ms AS mean_ms,
    event.baseline_ms AS baseline_ms,
    event.samples AS samples,
    event.evidence AS evidence
FROM events
WHERE topic = 'events.latency' AND fault = '';
