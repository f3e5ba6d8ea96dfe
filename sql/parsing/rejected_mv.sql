-- Starts the flow of rejected lines; see records_mv.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS rejected_mv TO rejected
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        received_at String,
        source String,
        host String,
        vm String,
        datastore String,
        peer String,
        file String,
        generation String,
        offset Nullable(UInt64),
        line_bytes Nullable(UInt32),
        run_id String,
        line String,
        reason String
    )') AS record,
    '^(19|2[0-2])[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)([.][0-9]{1,9})?Z$' AS utc_time, -- noqa: LT05
    '"(?:(?:host|vm|datastore|peer|file|generation|run_id|reason)"\\s*:\\s*(?:""|[^"\\s])|line"\\s*:\\s*[^"\\s]|(?:offset|line_bytes)"\\s*:\\s*(?:[^0-9\\s]|[0-9]+[^0-9,}\\s])|truncated"\\s*:\\s*[^t\\s])' AS wrong_type -- noqa: LT05
SELECT
    tupleElement(record, 'received_at') AS received_at,
    tupleElement(record, 'source') AS source,
    tupleElement(record, 'host') AS host,
    tupleElement(record, 'vm') AS vm,
    tupleElement(record, 'datastore') AS datastore,
    tupleElement(record, 'peer') AS peer,
    tupleElement(record, 'file') AS file,
    tupleElement(record, 'generation') AS generation,
    tupleElement(record, 'offset') AS offset,
    tupleElement(record, 'line_bytes') AS line_bytes,
    tupleElement(record, 'run_id') AS run_id,
    tupleElement(record, 'line') AS line,
    tupleElement(record, 'reason') AS reason,
    parseDateTime64BestEffortOrNull(tupleElement(record, 'received_at'), 6, 'UTC') AS received,
    multiIf(
        NOT startsWith(raw, '{') OR NOT isValidJSON(raw), 'not a JSON object',
        NOT match(tupleElement(record, 'received_at'), utc_time) OR isNull(received), 'received_at is not a UTC time',
        tupleElement(record, 'source') NOT IN ('syslog', 'vmware_log', 'esxtop', 'unknown'), 'unknown source',
        isNull(tupleElement(record, 'offset')) AND JSONHas(raw, 'offset'), 'offset is not an integer',
        isNull(tupleElement(record, 'line_bytes')) AND JSONHas(raw, 'line_bytes'), 'line_bytes is not an integer',
        match(raw, wrong_type), concat(splitByChar('"', extract(raw, wrong_type))[2], ' has a value of the wrong type'),
        tupleElement(record, 'run_id') = '', 'run_id is missing',
        tupleElement(record, 'reason') = '', 'reason is missing',
        tupleElement(record, 'line') = '' AND NOT JSONHas(raw, 'line'), 'line is missing',
        ''
    ) AS fault,
    raw,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    coalesce(_timestamp_ms, now64(3)) AS topic_time
FROM rejected_queue;
