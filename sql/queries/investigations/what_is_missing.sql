-- Which data of a time span is missing, cut, late or doubtful?
-- param from_at = 1970-01-01 00:00:00 : start, UTC
-- param to_at = 2100-01-01 00:00:00 : end, UTC
-- param host = : part of the host's name
SELECT
    kind,
    host,
    source,
    started_at,
    ended_at,
    quality_events.count,
    evidence[1] AS example,
    run_id
FROM quality_events
WHERE
    started_at < {to_at:DateTime('UTC')}
    AND coalesce(ended_at, now64(6)) >= {from_at:DateTime('UTC')}
    AND positionCaseInsensitive(host, {host:String}) > 0
ORDER BY started_at DESC, kind ASC, host ASC;
