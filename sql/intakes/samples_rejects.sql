-- A sample that breaks its schema goes to the dead-letter topic; see records_rejects.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS samples_rejects TO rejected_writer
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    formatDateTime(toDateTime64(topic_time, 6, 'UTC'), '%Y-%m-%dT%H:%i:%S.%fZ') AS received_at,
    'esxtop' AS source,
    host,
    concat(topic, '/', toString(topic_partition)) AS file,
    topic_offset AS offset,
    if(run_id = '', 'live', run_id) AS run_id,
    raw AS line,
    fault AS reason
FROM samples
WHERE fault != '';
