-- How long was each VM stunned before and after a time?
-- param at : the time, UTC, for example 2012-05-01 00:00:00
-- param days = 90 : days before and after
-- param settle_minutes = 10 : minutes after the time to leave out, as in before_and_after_change
-- param vm = : part of the VM's name
-- param most = 50 : number of rows, the longest stun first
WITH
    toDateTime64({at:DateTime('UTC')}, 6, 'UTC') AS moment,
    moment + toIntervalMinute({settle_minutes:UInt32}) AS settled_at
SELECT
    vm,
    datastore,
    countIf(ended_at < moment) AS stuns_before,
    round(maxIf(duration_us, ended_at < moment) / 1e6, 3) AS worst_before_s,
    countIf(ended_at >= settled_at) AS stuns_after,
    round(maxIf(duration_us, ended_at >= settled_at) / 1e6, 3) AS worst_after_s
FROM stuns_stored FINAL
PREWHERE
    ended_at >= moment - toIntervalDay({days:UInt32}) AND ended_at < moment + toIntervalDay({days:UInt32})
WHERE positionCaseInsensitive(vm, {vm:String}) > 0 AND NOT (ended_at >= moment AND ended_at < settled_at)
GROUP BY vm, datastore
ORDER BY greatest(worst_before_s, worst_after_s) DESC, vm ASC, datastore ASC
LIMIT {most:UInt32}
SETTINGS do_not_merge_across_partitions_select_final = 1;
