-- Never later than Kafka's time: a shipper whose clock is ahead would hide that its sources are silent.
CREATE MATERIALIZED VIEW IF NOT EXISTS source_activity_mv TO source_activity_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH least(assumeNotNull(received), topic_time) AS arrived_at
SELECT
    source,
    host,
    toStartOfFiveMinutes(arrived_at) AS bucket,
    min(arrived_at) AS first_received_at,
    max(arrived_at) AS last_received_at
FROM records
WHERE fault = '' AND kind = 'line' AND run_id = 'live' AND host != ''
GROUP BY source, host, bucket;

CREATE MATERIALIZED VIEW IF NOT EXISTS sample_activity_mv TO source_activity_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH least(assumeNotNull(received), topic_time) AS arrived_at
SELECT
    if(origin = 'vcenter', 'vcenter', 'esxtop') AS source,
    host,
    toStartOfFiveMinutes(arrived_at) AS bucket,
    min(arrived_at) AS first_received_at,
    max(arrived_at) AS last_received_at
FROM samples
WHERE fault = '' AND kind = 'line' AND run_id = 'live' AND host != ''
GROUP BY source, host, bucket;
