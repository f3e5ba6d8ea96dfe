-- What should be known before trusting what is shown: who fell silent, what was lost in the last hour?
-- Silent: not heard for ten minutes and for three times as long as ever in the last day, while others
-- were. `quality_events` tells more and takes longer; this is asked again and again.
WITH
    heard AS
    (
        SELECT
            source,
            host,
            max(last_received_at) AS last_at,
            arraySort(groupUniqArray(toUnixTimestamp(bucket))) AS intervals
        FROM source_activity_stored
        WHERE bucket >= now() - INTERVAL 1 DAY
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
    last_at AS since,
    toUInt64(silent_s) AS count
FROM silent
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
    'rejected' AS kind,
    toString(host) AS host,
    toString(source) AS source,
    min(received_at) AS since,
    count() AS count
FROM rejected_lines_stored
WHERE run_id = 'live' AND received_at >= now() - INTERVAL 1 HOUR
GROUP BY host, source
UNION ALL
SELECT 'borrowed_name' AS kind, host, 'syslog' AS source, max(last_heard_at) AS since, count() AS count
FROM borrowed_names
WHERE last_heard_at >= now() - INTERVAL 1 HOUR
GROUP BY host
ORDER BY kind = 'silent_source' DESC, kind ASC, count DESC, host ASC
LIMIT 200;
