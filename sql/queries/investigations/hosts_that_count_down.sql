-- Which hosts have Sync CR count-downs, and do their commands succeed in the end?
-- Only recovered: the LUN is slow, not stuck. For failed and is_stuck see stuck_reservations.
-- param days = 30 : days to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last conflict
-- param host = : part of the host's name
-- param most = 20 : number of rows
WITH
    least(
        {until:DateTime64(6, 'UTC')}, (SELECT max(started_at) FROM reservation_conflicts_stored), now64(6, 'UTC')
    ) AS until_at
SELECT
    host,
    count() AS count_downs,
    uniqExact(toDate(started_at)) AS days_seen,
    countIf(outcome = 'recovered') AS recovered,
    countIf(outcome = 'failed') AS failed,
    countIf(is_stuck) AS stuck,
    uniqExact(world_id) AS worlds,
    min(last_remaining) AS lowest_remaining,
    round(quantileExact(0.5)(duration_ms) / 1000, 3) AS p50_s,
    round(max(duration_ms) / 1000, 3) AS longest_s,
    arraySort(groupUniqArrayIf(10)(toString(if(path = '', device, path)), path != '' OR device != '')) AS devices,
    min(started_at) AS first_at,
    max(ended_at) AS last_at
FROM reservation_conflicts_stored FINAL
PREWHERE started_at > until_at - toIntervalDay({days:UInt32}) AND started_at <= until_at
WHERE
    dialect = 'sync_cr' AND NOT is_expected
    AND positionCaseInsensitive(host, {host:String}) > 0
GROUP BY host
ORDER BY failed DESC, count_downs DESC, host ASC
LIMIT {most:UInt32}
SETTINGS do_not_merge_across_partitions_select_final = 1;
