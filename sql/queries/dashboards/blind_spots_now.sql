-- One row is one data-quality event of the last hour: no live lines at all, a silent source, lines that are missing,
-- cut or rejected, a failed detector, or a borrowed host name; see fleet_clock, newest_line and silent_sources.
-- `rank` 1 comes first. Count of `no_live_lines` and `silent_source`: seconds. `quality_events` has more and takes
-- longer.
CREATE OR REPLACE VIEW blind_spots_now
DEFINER = transform SQL SECURITY DEFINER AS
WITH (SELECT as_of FROM fleet_clock) AS as_of
SELECT
    'no_live_lines' AS kind,
    '' AS host,
    '' AS source,
    toDateTime64(arrived_at, 6, 'UTC') AS since,
    toUInt64(coalesce(age_s, 0)) AS count,
    1 AS rank
FROM newest_line
WHERE is_silent
UNION ALL
SELECT
    'silent_source' AS kind,
    toString(host) AS host,
    toString(source) AS source,
    toDateTime64(last_at, 6, 'UTC') AS since,
    toUInt64(silent_s) AS count,
    2 AS rank
FROM silent_sources
UNION ALL
SELECT
    toString(kind) AS kind,
    toString(host) AS host,
    toString(source) AS source,
    toDateTime64(min(started_at), 6, 'UTC') AS since,
    sum(quality_events_stored.count) AS count,
    3 AS rank
FROM quality_events_stored FINAL
WHERE ended_at > as_of - INTERVAL 1 HOUR AND started_at <= as_of
GROUP BY kind, host, source
UNION ALL
SELECT
    if(startsWith(reason, 'detector '), 'detector_failed', 'rejected') AS kind,
    toString(host) AS host,
    toString(source) AS source,
    toDateTime64(min(received_at), 6, 'UTC') AS since,
    count() AS count,
    3 AS rank
FROM rejected_lines_stored FINAL
WHERE received_at > as_of - INTERVAL 1 HOUR
GROUP BY kind, host, source
UNION ALL
SELECT 'borrowed_name' AS kind, host, 'syslog' AS source, max(last_heard_at) AS since, count() AS count, 3 AS rank
FROM borrowed_names
WHERE last_heard_at > as_of - INTERVAL 1 HOUR
GROUP BY host;
