-- The arrival is Kafka's time, because the clock of a host or shipper can be wrong.
CREATE MATERIALIZED VIEW IF NOT EXISTS newest_lines_mv TO newest_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    source,
    max(topic_time) AS arrived_at,
    argMax(assumeNotNull(event_at), topic_time) AS line_at
FROM records
WHERE fault = '' AND kind = 'line' AND run_id = 'live'
GROUP BY source;

CREATE MATERIALIZED VIEW IF NOT EXISTS newest_samples_mv TO newest_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    if(origin = 'vcenter', 'vcenter', 'esxtop') AS source,
    max(topic_time) AS arrived_at,
    argMax(assumeNotNull(event_at), topic_time) AS line_at
FROM samples
WHERE fault = '' AND kind = 'line' AND run_id = 'live'
GROUP BY source;
