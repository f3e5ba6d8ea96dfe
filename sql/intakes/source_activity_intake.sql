CREATE MATERIALIZED VIEW IF NOT EXISTS source_activity_intake TO source_activity_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    source,
    host,
    toStartOfFiveMinutes(assumeNotNull(received)) AS bucket,
    min(assumeNotNull(received)) AS first_received_at,
    max(assumeNotNull(received)) AS last_received_at
FROM records
WHERE fault = '' AND kind = 'line' AND run_id = 'live' AND host != ''
GROUP BY source, host, bucket;

CREATE MATERIALIZED VIEW IF NOT EXISTS sample_activity_intake TO source_activity_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    if(origin = 'vcenter', 'vcenter', 'esxtop') AS source,
    host,
    toStartOfFiveMinutes(assumeNotNull(received)) AS bucket,
    min(assumeNotNull(received)) AS first_received_at,
    max(assumeNotNull(received)) AS last_received_at
FROM samples
WHERE fault = '' AND kind = 'line' AND run_id = 'live' AND host != ''
GROUP BY source, host, bucket;
