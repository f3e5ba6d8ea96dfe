-- One row is one thing to know before trusting what is shown: a source that fell silent, lines that
-- were lost, cut, could not be used or claimed another's name in the last hour; see fleet_clock.
-- Silent: not heard for ten minutes and for three times as long as ever in the last day, while others
-- were. `quality_events` tells more and takes longer.
CREATE OR REPLACE VIEW blind_spots_now AS
WITH
    (SELECT as_of FROM fleet_clock) AS as_of,

    heard AS
    (
        SELECT
            source,
            host,
            max(last_received_at) AS last_at,
            arraySort(groupUniqArray(toUnixTimestamp(bucket))) AS intervals
        FROM source_activity_stored
        WHERE bucket >= as_of - INTERVAL 1 DAY
        GROUP BY source, host
    ),

    silent AS
    (
        SELECT
            source,
            host,
            last_at,
            dateDiff('second', last_at, max(last_at) OVER ()) AS silent_s
        FROM heard
        QUALIFY
            length(intervals) >= 2
            AND silent_s > 600
            AND silent_s > 3 * arrayMax(arrayDifference(intervals))
    )

SELECT
    'silent_source' AS kind,
    toString(host) AS host,
    toString(source) AS source,
    toDateTime64(last_at, 6, 'UTC') AS since,
    toUInt64(silent_s) AS count
FROM silent
UNION ALL
SELECT
    toString(kind) AS kind,
    toString(host) AS host,
    toString(source) AS source,
    toDateTime64(min(started_at), 6, 'UTC') AS since,
    sum(quality_events_stored.count) AS count
FROM quality_events_stored FINAL
WHERE ended_at > as_of - INTERVAL 1 HOUR AND started_at <= as_of
GROUP BY kind, host, source
UNION ALL
SELECT
    'rejected' AS kind,
    toString(host) AS host,
    toString(source) AS source,
    toDateTime64(min(received_at), 6, 'UTC') AS since,
    count() AS count
FROM rejected_lines_stored
WHERE received_at > as_of - INTERVAL 1 HOUR
GROUP BY host, source
UNION ALL
SELECT 'borrowed_name' AS kind, host, 'syslog' AS source, max(last_heard_at) AS since, count() AS count
FROM borrowed_names
WHERE last_heard_at > as_of - INTERVAL 1 HOUR
GROUP BY host;
