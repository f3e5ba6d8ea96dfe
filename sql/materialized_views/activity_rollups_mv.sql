-- The intervals of a source by half day, and those of all sources.
CREATE MATERIALIZED VIEW IF NOT EXISTS source_half_days_mv TO source_half_days_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    source,
    host,
    toStartOfInterval(bucket, INTERVAL 12 HOUR) AS half_day,
    min(bucket) AS first_bucket,
    groupBitOr(bitShiftLeft(CAST(1, 'UInt256'), intDiv(dateDiff('second', half_day, bucket), 300))) AS intervals,
    max(last_received_at) AS last_received_at
FROM source_activity_stored
GROUP BY source, host, half_day;

CREATE MATERIALIZED VIEW IF NOT EXISTS activity_intervals_mv TO activity_intervals_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    bucket,
    min(first_received_at) AS first_received_at,
    max(last_received_at) AS last_received_at
FROM source_activity_stored
GROUP BY bucket;
