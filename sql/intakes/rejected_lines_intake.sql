-- A message of the dead-letter topic that does not parse is kept here too, or it would go round.
CREATE MATERIALIZED VIEW IF NOT EXISTS rejected_lines_intake TO rejected_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    coalesce(parseDateTime64BestEffortOrNull(rejected.received_at, 6, 'UTC'), topic_time) AS received_at,
    if(source = '', 'unknown', source) AS source,
    host,
    vm,
    datastore,
    peer,
    if(error = '', file, concat(topic, '/', toString(topic_partition))) AS file,
    generation,
    if(error = '', offset, topic_offset) AS offset,
    line_bytes,
    if(run_id = '', 'live', run_id) AS run_id,
    if(error = '', line, raw_message) AS line,
    if(error = '', reason, concat('not a rejected line: ', error)) AS reason
FROM rejected;
