-- Intervals that were stored before these two tables were.
INSERT INTO source_half_days_stored (source, host, half_day, first_bucket, intervals, last_received_at)
SELECT
    source,
    host,
    toStartOfInterval(bucket, INTERVAL 12 HOUR) AS half_day,
    min(bucket) AS first_bucket,
    groupBitOr(bitShiftLeft(CAST(1, 'UInt256'), intDiv(dateDiff('second', half_day, bucket), 300))) AS intervals,
    max(last_received_at) AS last_received_at
FROM source_activity_stored
GROUP BY source, host, half_day;

INSERT INTO activity_intervals_stored (bucket, first_received_at, last_received_at)
SELECT
    bucket,
    min(first_received_at) AS first_received_at,
    max(last_received_at) AS last_received_at
FROM source_activity_stored
GROUP BY bucket;
