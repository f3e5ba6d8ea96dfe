-- One row is one data-quality event with its span of time: log lines that are missing, cut or rejected, a
-- failed detector, or what is silent until now. `quality_events` has more and takes longer.
CREATE OR REPLACE VIEW data_quality
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    toString(kind) AS kind,
    toString(host) AS host,
    toString(source) AS source,
    toDateTime64(started_at, 6, 'UTC') AS started_at,
    toDateTime64(ended_at, 6, 'UTC') AS ended_at,
    quality_events_stored.count AS count
FROM quality_events_stored FINAL
UNION ALL
SELECT
    if(startsWith(reason, 'detector '), 'detector_failed', 'rejected') AS kind,
    toString(host) AS host,
    toString(source) AS source,
    toDateTime64(min(received_at), 6, 'UTC') AS started_at,
    toDateTime64(max(received_at), 6, 'UTC') AS ended_at,
    count() AS count
FROM rejected_lines_stored FINAL
GROUP BY kind, host, source, toStartOfHour(received_at)
UNION ALL
-- A silence has no end yet. One minute before now, because the end of a chart's range is the time of its query,
-- which has passed.
SELECT
    kind,
    host,
    source,
    coalesce(since, ended_at) AS started_at,
    assumeNotNull((SELECT as_of FROM fleet_clock)) - INTERVAL 1 MINUTE AS ended_at,
    count
FROM blind_spots_now
WHERE kind NOT IN ('rejected', 'detector_failed', 'log_throttled', 'gap');
