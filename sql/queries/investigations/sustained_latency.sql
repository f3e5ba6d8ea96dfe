-- Which devices were slow for a minute or longer, and how slow?
-- baseline_ms is the usual latency of the device: the median of its samples of that week.
-- param host = : part of the host's name
-- param device = : part of the device's name
-- param most = 20 : number of rows
WITH
    chosen AS
    (
        SELECT *, toMonday(started_at) AS monday
        FROM latency_episodes_stored FINAL
        WHERE
            kind = 'sustained'
            AND positionCaseInsensitive(host, {host:String}) > 0
            AND positionCaseInsensitive(device, {device:String}) > 0
        ORDER BY peak_ms DESC, started_at ASC
        LIMIT {most:UInt32}
        SETTINGS do_not_merge_across_partitions_select_final = 1
    ),

    usual AS
    (
        SELECT
            object_class, host, device, metric, week, origin,
            round(exp(quantilesTDigestMerge(0.25, 0.5, 0.75)(logarithms)[2]), 3) AS median_ms
        FROM latency_baselines_stored
        WHERE (object_class, host, device, metric, week) IN (
            SELECT object_class, host, device, metric, monday FROM chosen
        )
        GROUP BY object_class, host, device, metric, week, origin
    )

SELECT
    chosen.host AS host,
    chosen.device AS device,
    chosen.object_class AS object_class,
    chosen.metric AS metric,
    chosen.origin AS origin,
    started_at,
    ended_at,
    dateDiff('second', started_at, ended_at) AS seconds,
    peak_ms,
    mean_ms,
    -- vmkernel names its own.
    if(chosen.origin = 'vmkernel' OR median_ms = 0, baseline_ms, median_ms) AS baseline_ms,
    samples
FROM chosen
LEFT JOIN usual
    ON
        chosen.object_class = usual.object_class AND chosen.host = usual.host
        AND chosen.device = usual.device AND chosen.metric = usual.metric AND chosen.monday = usual.week
        AND if(chosen.origin = 'vcenter', 'vcenter', '') = usual.origin
ORDER BY peak_ms DESC, started_at ASC;
