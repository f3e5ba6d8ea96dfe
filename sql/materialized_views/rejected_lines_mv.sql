-- If the time of arrival is far from Kafka's time, Kafka's is used, as in records_mv.sql.
-- Messages of the dead-letter topic that violate their schema are stored here too, verbatim.
CREATE MATERIALIZED VIEW IF NOT EXISTS rejected_lines_mv TO rejected_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    if(
        received BETWEEN topic_time - INTERVAL 40 DAY AND topic_time + INTERVAL 1 DAY,
        assumeNotNull(received),
        topic_time
    ) AS received_at,
    source,
    host,
    vm,
    datastore,
    peer,
    file,
    generation,
    coalesce(rejected.offset, 0) AS offset,
    coalesce(rejected.line_bytes, 0) AS line_bytes,
    run_id,
    line,
    reason
FROM rejected
WHERE fault = '';

CREATE MATERIALIZED VIEW IF NOT EXISTS rejected_rejects TO rejected_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    topic_time AS received_at,
    'unknown' AS source,
    concat(topic, '/', toString(topic_partition)) AS file,
    topic_offset AS offset,
    'live' AS run_id,
    raw AS line,
    concat('not a rejected line: ', fault) AS reason
FROM rejected
WHERE fault != '';
