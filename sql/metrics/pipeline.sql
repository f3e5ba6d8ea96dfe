-- What Prometheus is told of what is stored; asked again and again, so nothing here reads all lines.
-- Detection is as late as the stun's end, by its host's clock, is old when the stun is told. The
-- version of a stun holds when it was told (sql/tables/stuns_stored.sql).
WITH
    fresh_stuns AS
    (
        SELECT
            (0xFFFFFFFFFFFFFFFF - bitAnd(version, 0xFFFFFFFFFFFFFFFF)) / 1000
            - toUnixTimestamp64Micro(ended_at) / 1000000 AS late_s
        FROM stuns_by_time_stored
        WHERE ended_at > now() - INTERVAL 15 MINUTE AND run_id = 'live' AND NOT is_deleted
    )

SELECT
    'stunwatch_stored_rows' AS name,
    'gauge' AS type,
    'Rows of a table, before what is the same is merged.' AS help,
    map('table', tables.name) AS labels,
    toFloat64(assumeNotNull(tables.total_rows)) AS value
FROM system.tables AS tables
WHERE tables.database = 'stunwatch' AND endsWith(tables.name, '_stored')
UNION ALL
SELECT
    'stunwatch_open_incidents' AS name,
    'gauge' AS type,
    'Incidents that go on now, by severity.' AS help,
    map('severity', severities.severity) AS labels,
    toFloat64(countIf(incidents.state = 'open' AND incidents.run_id = 'live')) AS value
FROM (SELECT arrayJoin(['notice', 'warning', 'critical']) AS severity) AS severities
LEFT JOIN incidents ON severities.severity = toString(incidents.severity)
GROUP BY severities.severity
UNION ALL
SELECT
    'stunwatch_silent_sources' AS name,
    'gauge' AS type,
    'Sources of hosts that are not heard, while others are.' AS help,
    CAST(map(), 'Map(String, String)') AS labels,
    toFloat64(count()) AS value
FROM blind_spots_now
WHERE kind = 'silent_source' AND (SELECT is_live FROM fleet_clock)
UNION ALL
SELECT
    'stunwatch_detection_latency_seconds' AS name,
    'gauge' AS type,
    'How old a stun of the last 15 minutes was when it was told.' AS help,
    map('quantile', '0.95') AS labels,
    quantile(0.95)(late_s) AS value
FROM fresh_stuns
HAVING count() > 0
