-- What breaks its schema goes to the dead-letter topic, verbatim and with its reason; from there it
-- reaches rejected_lines like every other rejected line. The topic, partition and offset name it.
CREATE MATERIALIZED VIEW IF NOT EXISTS records_rejects TO rejected_writer
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    formatDateTime(toDateTime64(topic_time, 6, 'UTC'), '%Y-%m-%dT%H:%i:%S.%fZ') AS received_at,
    if(source IN ('syslog', 'vmware_log'), source, 'unknown') AS source,
    host,
    concat(topic, '/', toString(topic_partition)) AS file,
    topic_offset AS offset,
    if(run_id = '', 'live', run_id) AS run_id,
    raw AS line,
    fault AS reason
FROM records
WHERE fault != '';
