-- Which LUNs had the highest DAVG at a moment?
-- One row is one LUN as one host measured it. Of esxtop and vCenter it is the minutes from `at` on. Of
-- origin vmkernel it is an episode that the kernel logged ("performance has deteriorated") and that was
-- not over: peak_davg_ms is its highest value, and the kernel logs no average and no KAVG.
-- param at : the moment, UTC, for example 2012-03-15 02:13:00
-- param minutes = 1 : how many minutes from then on
-- param host = : part of the host's name
-- param most = 10 : how many rows
WITH
    toStartOfMinute({at:DateTime64(6, 'UTC')}) AS from_at,
    from_at + toIntervalMinute({minutes:UInt32}) AS until_at,

    found AS
    (
        SELECT
            toString(host) AS on_host, toString(device) AS lun, toString(origin) AS measured_by,
            toNullable(avg(avg_davg_ms)) AS mean_ms, max(max_davg_ms) AS peak_ms, max(max_kavg_ms) AS kavg_ms,
            toNullable(sum(commands)) AS sent
        FROM latency_windows_stored FINAL
        PREWHERE window_start >= from_at AND window_start < until_at
        WHERE object_class IN ('scsi_device', 'disk')
        GROUP BY host, device, origin
        UNION ALL
        SELECT
            toString(host) AS on_host, toString(device) AS lun, toString(origin) AS measured_by,
            NULL AS mean_ms, max(peak_ms) AS peak_ms, NULL AS kavg_ms, NULL AS sent
        FROM latency_episodes_stored FINAL
        -- An episode whose end was not logged is not slow for ever.
        PREWHERE started_at < until_at AND started_at > from_at - toIntervalDay(1)
        WHERE origin = 'vmkernel' AND coalesce(ended_at, until_at) >= from_at
        GROUP BY host, device, origin
    )

SELECT
    lun AS device,
    device_facts.datastore AS datastore,
    on_host AS host,
    measured_by AS origin,
    round(mean_ms, 1) AS mean_davg_ms,
    round(peak_ms, 1) AS peak_davg_ms,
    round(kavg_ms, 1) AS peak_kavg_ms,
    round(sent) AS commands
FROM found
LEFT JOIN device_facts ON found.lun = device_facts.device
WHERE isNotNull(peak_ms) AND positionCaseInsensitive(on_host, {host:String}) > 0
ORDER BY coalesce(mean_davg_ms, peak_davg_ms) DESC, device ASC, host ASC, origin ASC
LIMIT {most:UInt32}
SETTINGS do_not_merge_across_partitions_select_final = 1;
