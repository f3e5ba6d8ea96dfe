-- Records that violate their schema, verbatim and with the reason; see events_rejects.sql. Topic, partition and offset
-- identify them.
CREATE MATERIALIZED VIEW IF NOT EXISTS records_rejects TO rejected_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    topic_time AS received_at,
    if(source IN ('syslog', 'vmware_log'), source, 'unknown') AS source,
    substring(host, 1, 255) AS host,
    concat(topic, '/', toString(topic_partition)) AS file,
    topic_offset AS offset,
    if(run_id = '', 'live', substring(run_id, 1, 255)) AS run_id,
    raw AS line,
    fault AS reason
FROM records
WHERE fault != '';
