-- Which devices were slow, and on how many hosts at once?
-- One host points to the host; one device on all its hosts points to the LUN; many devices point to the
-- array or the fabric.
-- param since = 1970-01-01 00:00:00 : episodes from this time on, UTC
-- param most = 50 : number of rows
SELECT
    device,
    object_class,
    uniqExact(host) AS hosts,
    count() AS episodes,
    countIf(kind = 'sustained') AS sustained,
    countIf(ended_at IS NULL) AS still_slow,
    max(peak_ms) AS worst_ms,
    min(started_at) AS first_at,
    max(coalesce(ended_at, started_at)) AS last_at,
    arraySort(groupUniqArray(origin)) AS origins
FROM latency_episodes_stored FINAL
WHERE coalesce(ended_at, toDateTime64('2199-12-31 00:00:00', 6, 'UTC')) >= {since:DateTime('UTC')}
GROUP BY device, object_class
ORDER BY worst_ms DESC, device ASC
LIMIT {most:UInt32}
SETTINGS do_not_merge_across_partitions_select_final = 1;
