-- Samples that violate their schema, verbatim and with the reason; see events_rejects.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS samples_rejects TO rejected_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    topic_time AS received_at,
    'esxtop' AS source,
    substring(host, 1, 255) AS host,
    concat(topic, '/', toString(topic_partition)) AS file,
    topic_offset AS offset,
    if(run_id = '', 'live', substring(run_id, 1, 255)) AS run_id,
    raw AS line,
    fault AS reason
FROM samples
WHERE fault != '';
