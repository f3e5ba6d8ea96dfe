-- One row is one source of a host that is silent now, while other sources send lines. Silent: no line for ten
-- minutes and for three times its longest pause of the last day; or no line for a day, after lines in 144
-- intervals of five minutes in a week. `quality_events` also has earlier silences, and takes longer.
CREATE OR REPLACE VIEW silent_sources
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    heard AS
    (
        SELECT
            source,
            host,
            max(last_received_at) AS last_at,
            count() AS intervals_of_week,
            arraySort(groupUniqArrayIf(toUnixTimestamp(bucket), bucket >= now() - INTERVAL 1 DAY)) AS intervals
        FROM source_activity_stored
        WHERE host != '' AND bucket >= now() - INTERVAL 7 DAY
        GROUP BY source, host
    )

SELECT
    source,
    host,
    last_at,
    dateDiff('second', last_at, max(last_at) OVER ()) AS silent_s
FROM heard
QUALIFY
    (length(intervals) >= 2 AND silent_s > 600 AND silent_s > 3 * arrayMax(arrayDifference(intervals)))
    OR (silent_s > 86400 AND intervals_of_week >= 144);
