-- Which devices were slow for a minute or longer, and how slow?
-- param host = : part of the host's name
-- param device = : part of the device's name
-- param most = 20 : how many rows
SELECT
    host,
    device,
    object_class,
    metric,
    origin,
    started_at,
    ended_at,
    dateDiff('second', started_at, ended_at) AS seconds,
    peak_ms,
    mean_ms,
    baseline_ms,
    samples
FROM latency_episodes
WHERE kind = 'sustained'
    AND positionCaseInsensitive(host, {host:String}) > 0
    AND positionCaseInsensitive(device, {device:String}) > 0
ORDER BY peak_ms DESC, started_at ASC
LIMIT {most:UInt32};
