-- How long was each VM stunned before a moment, and how long after it?
-- param at : the moment, UTC, for example 2012-05-01 00:00:00
SELECT
    vm,
    datastore,
    countIf(ended_at < {at:DateTime('UTC')}) AS stuns_before,
    round(maxIf(duration_us, ended_at < {at:DateTime('UTC')}) / 1e6, 3) AS worst_before_s,
    countIf(ended_at >= {at:DateTime('UTC')}) AS stuns_after,
    round(maxIf(duration_us, ended_at >= {at:DateTime('UTC')}) / 1e6, 3) AS worst_after_s
FROM stuns
GROUP BY vm, datastore
ORDER BY worst_before_s DESC, vm ASC;
