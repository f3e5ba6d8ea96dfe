-- One row is one latency episode: a device answered slowly from started_at to ended_at, which is
-- NULL while nothing says that it is over.
CREATE OR REPLACE VIEW latency_episodes AS
SELECT
    event_id,
    host,
    object_class,
    device,
    metric,
    origin,
    kind,
    started_at,
    ended_at,
    threshold_ms,
    peak_ms,
    mean_ms,
    baseline_ms,
    samples,
    evidence,
    detected_at,
    run_id
FROM latency_episodes_stored FINAL;
