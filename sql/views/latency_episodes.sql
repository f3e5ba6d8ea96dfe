-- One row is one latency episode: a device was slow from started_at to ended_at; ended_at is NULL while
-- the episode is open. baseline_ms is the median of all samples of the device in that week. Half of them
-- are between baseline_ms / baseline_spread and baseline_ms * baseline_spread (median absolute deviation
-- of the logarithm, from the quartiles). Episodes of vmkernel have the baseline of the log line.
CREATE OR REPLACE VIEW latency_episodes
DEFINER = transform SQL SECURITY DEFINER AS
WITH usual AS
    (
        SELECT
            object_class,
            host,
            device,
            metric,
            week,
            origin,
            quantilesTDigestMerge(0.25, 0.5, 0.75)(logarithms) AS quartiles
        FROM latency_baselines_stored
        GROUP BY object_class, host, device, metric, week, origin
    )

SELECT
    told.event_id AS event_id,
    told.host AS host,
    told.object_class AS object_class,
    told.device AS device,
    told.metric AS metric,
    told.origin AS origin,
    told.kind AS kind,
    told.started_at AS started_at,
    told.ended_at AS ended_at,
    told.threshold_ms AS threshold_ms,
    told.peak_ms AS peak_ms,
    told.mean_ms AS mean_ms,
    if(
        told.origin = 'vmkernel' OR empty(usual.quartiles),
        told.baseline_ms,
        round(exp(usual.quartiles[2]), 3)
    ) AS baseline_ms,
    if(
        told.origin = 'vmkernel' OR empty(usual.quartiles),
        NULL,
        round(exp((usual.quartiles[3] - usual.quartiles[1]) / 2), 3)
    ) AS baseline_spread,
    told.samples AS samples,
    told.evidence AS evidence,
    told.detected_at AS detected_at,
    told.run_id AS run_id
FROM latency_episodes_stored AS told FINAL
LEFT JOIN usual
    ON
        told.object_class = usual.object_class
        AND told.host = usual.host
        AND told.device = usual.device
        AND told.metric = usual.metric
        AND toMonday(told.started_at) = usual.week
        AND if(told.origin = 'vcenter', 'vcenter', '') = usual.origin
SETTINGS do_not_merge_across_partitions_select_final = 1;
