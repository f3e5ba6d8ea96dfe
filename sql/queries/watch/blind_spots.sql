-- Are live lines missing, which sources are silent, and which data was lost in the last hour?
-- `quality_events` has more and takes longer; this query runs every 30 seconds. Count of `no_live_lines` and
-- `silent_source`: seconds.
SELECT
    'no_live_lines' AS kind,
    '' AS host,
    '' AS source,
    arrived_at AS since,
    toUInt64(coalesce(age_s, 0)) AS count
FROM newest_line
WHERE is_silent
UNION ALL
SELECT
    'silent_source' AS kind,
    toString(host) AS host,
    toString(source) AS source,
    last_at AS since,
    toUInt64(silent_s) AS count
FROM silent_sources
UNION ALL
SELECT
    toString(kind) AS kind,
    toString(host) AS host,
    toString(source) AS source,
    min(started_at) AS since,
    sum(quality_events_stored.count) AS count
FROM quality_events_stored FINAL
WHERE run_id = 'live' AND ended_at >= now() - INTERVAL 1 HOUR
GROUP BY kind, host, source
UNION ALL
SELECT
    if(startsWith(reason, 'detector '), 'detector_failed', 'rejected') AS kind,
    toString(host) AS host,
    toString(source) AS source,
    min(received_at) AS since,
    count() AS count
FROM rejected_lines_stored FINAL
WHERE run_id = 'live' AND received_at >= now() - INTERVAL 1 HOUR
GROUP BY kind, host, source
UNION ALL
SELECT 'borrowed_name' AS kind, host, 'syslog' AS source, max(last_heard_at) AS since, count() AS count
FROM borrowed_names
WHERE last_heard_at >= now() - INTERVAL 1 HOUR
GROUP BY host
ORDER BY indexOf(['silent_source', 'no_live_lines'], kind) DESC, kind ASC, count DESC, host ASC
LIMIT 200;
