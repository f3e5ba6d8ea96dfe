-- An event that does not parse goes to the dead-letter topic, verbatim and with its reason.
CREATE MATERIALIZED VIEW IF NOT EXISTS events_rejects TO rejected_writer
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    formatDateTime(toDateTime64(topic_time, 6, 'UTC'), '%Y-%m-%dT%H:%i:%S.%fZ') AS received_at,
    'unknown' AS source,
    concat(topic, '/', toString(topic_partition)) AS file,
    topic_offset AS offset,
    'live' AS run_id,
    raw AS line,
    concat('not an event: ', fault) AS reason
FROM events
WHERE fault != '';
