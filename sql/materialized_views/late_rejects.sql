-- Invalid late samples, verbatim and with the reason; see events_rejects.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS late_rejects TO rejected_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    topic_time AS received_at,
    'esxtop' AS source,
    concat(topic, '/', toString(topic_partition)) AS file,
    topic_offset AS offset,
    'live' AS run_id,
    raw AS line,
    fault AS reason
FROM late
WHERE fault != '';
