-- The metrics of stored data for Prometheus. They are queried often, so nothing here reads all lines.
-- The detection latency is the time from the stun's end, by its host's clock, to its detection. The version of a stun
-- contains the time of detection (sql/tables/stuns_stored.sql).
WITH
    fresh_stuns AS
    (
        SELECT
            (0xFFFFFFFFFFFFFFFF - bitAnd(version, 0xFFFFFFFFFFFFFFFF)) / 1000
            - toUnixTimestamp64Micro(ended_at) / 1000000 AS late_s
        FROM stuns_by_time_stored
        WHERE
            ended_at > now() - INTERVAL 15 MINUTE AND ended_at < now() + INTERVAL 1 HOUR
            AND run_id = 'live' AND NOT is_deleted
    )

SELECT
    'stunwatch_stored_rows' AS name,
    'gauge' AS type,
    'Rows of a table. Rows that are not merged yet count as well.' AS help,
    map('table', tables.name) AS labels,
    toFloat64(assumeNotNull(tables.total_rows)) AS value
FROM system.tables AS tables
WHERE tables.database = 'stunwatch' AND endsWith(tables.name, '_stored')
UNION ALL
SELECT
    'stunwatch_open_incidents' AS name,
    'gauge' AS type,
    'Open incidents, by severity.' AS help,
    map('severity', severities.severity) AS labels,
    toFloat64(countIf(incidents.state = 'open' AND incidents.run_id = 'live')) AS value
FROM (SELECT arrayJoin(['notice', 'warning', 'critical']) AS severity) AS severities
LEFT JOIN incidents ON severities.severity = toString(incidents.severity)
GROUP BY severities.severity
UNION ALL
SELECT
    'stunwatch_live_lines_missing' AS name,
    'gauge' AS type,
    '1 while the newest live line is older than the limit, or none was ever received.' AS help,
    CAST(map(), 'Map(String, String)') AS labels,
    toFloat64(is_silent) AS value
FROM newest_line
UNION ALL
SELECT
    'stunwatch_newest_line_age_seconds' AS name,
    'gauge' AS type,
    'Age of the newest live line, by its arrival in Kafka; absent if none was ever received.' AS help,
    CAST(map(), 'Map(String, String)') AS labels,
    toFloat64(assumeNotNull(age_s)) AS value
FROM newest_line
WHERE isNotNull(age_s)
UNION ALL
SELECT
    'stunwatch_newest_line_limit_seconds' AS name,
    'gauge' AS type,
    'Limit of that age.' AS help,
    CAST(map(), 'Map(String, String)') AS labels,
    toFloat64(limit_s) AS value
FROM newest_line
UNION ALL
SELECT
    'stunwatch_silent_sources' AS name,
    'gauge' AS type,
    'Sources of hosts that send no lines, while others do.' AS help,
    CAST(map(), 'Map(String, String)') AS labels,
    toFloat64(count()) AS value
FROM blind_spots_now
WHERE kind = 'silent_source' AND (SELECT is_live FROM fleet_clock)
UNION ALL
SELECT
    'stunwatch_detector_failures' AS name,
    'gauge' AS type,
    'Records of the last hour on which a detector failed. Few are kept per detector.' AS help,
    CAST(map(), 'Map(String, String)') AS labels,
    toFloat64(sum(blind_spots_now.count)) AS value
FROM blind_spots_now
WHERE kind = 'detector_failed' AND (SELECT is_live FROM fleet_clock)
UNION ALL
SELECT
    'stunwatch_detection_latency_seconds' AS name,
    'gauge' AS type,
    'Time from the end of a stun to its detection, in the last 15 minutes.' AS help,
    map('quantile', '0.95') AS labels,
    quantile(0.95)(late_s) AS value
FROM fresh_stuns
HAVING count() > 0
