-- How long was each VM stunned before a moment, and how long after it?
-- param at : the moment, UTC, for example 2012-05-01 00:00:00
-- param days = 30 : how far to look, before and after
-- param vm = : part of the VM's name
-- param most = 50 : how many rows, the longest stun first
WITH
    toDateTime64({at:DateTime('UTC')}, 6, 'UTC') AS moment
SELECT
    vm,
    datastore,
    countIf(ended_at < moment) AS stuns_before,
    round(maxIf(duration_us, ended_at < moment) / 1e6, 3) AS worst_before_s,
    countIf(ended_at >= moment) AS stuns_after,
    round(maxIf(duration_us, ended_at >= moment) / 1e6, 3) AS worst_after_s
FROM stuns_stored FINAL
PREWHERE
    ended_at >= moment - toIntervalDay({days:UInt32}) AND ended_at < moment + toIntervalDay({days:UInt32})
WHERE positionCaseInsensitive(vm, {vm:String}) > 0
GROUP BY vm, datastore
ORDER BY greatest(worst_before_s, worst_after_s) DESC, vm ASC, datastore ASC
LIMIT {most:UInt32};
