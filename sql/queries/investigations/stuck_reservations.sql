-- Which Sync CR count-downs failed, and on which path?
-- param host = : part of the host's name
-- param most = 20 : number of rows
SELECT
    host,
    device,
    path,
    is_stuck,
    is_expected,
    count() AS count_downs,
    uniqExact(world_id) AS worlds,
    min(started_at) AS first_started_at,
    max(ended_at) AS last_ended_at,
    max(duration_ms) AS longest_ms
FROM reservation_conflicts
WHERE outcome = 'failed' AND positionCaseInsensitive(host, {host:String}) > 0
GROUP BY host, device, path, is_stuck, is_expected
ORDER BY is_stuck DESC, count_downs DESC, host ASC, device ASC, path ASC
LIMIT {most:UInt32};
