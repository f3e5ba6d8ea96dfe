-- Events that violate their schema, verbatim and with the reason. They are stored here and not sent to esxi.rejected,
-- because a message of Kafka's maximum size does not fit into another message.
CREATE MATERIALIZED VIEW IF NOT EXISTS events_rejects TO rejected_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    topic_time AS received_at,
    'unknown' AS source,
    concat(topic, '/', toString(topic_partition)) AS file,
    topic_offset AS offset,
    'live' AS run_id,
    raw AS line,
    concat('not an event: ', fault) AS reason
FROM events
WHERE fault != '';
