-- Starts the flow of records. This view is created last and dropped first, so that no record passes while a view in
-- sql/materialized_views is missing.
--
-- JSONExtract turns other values into text, and an incomplete number into 0. So `wrong_type` searches the message for
-- a field whose value does not begin like a value of its type. Inside JSON strings, quotation marks have a backslash,
-- so a log message that quotes a field does not match.
--
-- `tupleElement(record, 'host')` is `record.host`: ClickHouse takes half a millisecond to find such a name, for every
-- block of records.
CREATE MATERIALIZED VIEW IF NOT EXISTS records_mv TO records
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_time String,
        received_at String,
        kind String,
        source String,
        program String,
        host String,
        vm String,
        datastore String,
        severity String,
        thread String,
        op_id String,
        head String,
        message String,
        peer String,
        file String,
        generation String,
        offset Nullable(UInt64),
        line_bytes Nullable(UInt32),
        run_id String,
        time_quality String,
        truncated Bool,
        vm_name String,
        vm_id String,
        stamped_at String
    )') AS record,
    '^(19|2[0-2])[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)([.][0-9]{1,9})?Z$' AS utc_time, -- noqa: LT05
    '"(?:(?:program|host|vm|datastore|severity|thread|op_id|head|peer|file|generation|run_id|time_quality|vm_name|vm_id|stamped_at)"\\s*:\\s*(?:""|[^"\\s])|message"\\s*:\\s*[^"\\s]|(?:offset|line_bytes)"\\s*:\\s*(?:[^0-9\\s]|[0-9]+[^0-9,}\\s])|truncated"\\s*:\\s*[^t\\s])' AS wrong_type, -- noqa: LT05
    -- Partitions and retention use this time, so the shipper's clock is used only if it is near Kafka's.
    parseDateTime64BestEffortOrNull(tupleElement(record, 'received_at'), 6, 'UTC') AS read_at,
    if(
        read_at < topic_time - INTERVAL 40 DAY OR read_at > topic_time + INTERVAL 1 DAY,
        CAST(topic_time, 'Nullable(DateTime64(6, \'UTC\'))'),
        read_at
    ) AS arrived_at,
    parseDateTime64BestEffortOrNull(tupleElement(record, 'event_time'), 6, 'UTC') AS told_at,
    -- As in ingest/records.py: a line from the network is not believed to be from another season.
    tupleElement(record, 'run_id') = 'live' AND tupleElement(record, 'file') = '' AND (
        told_at < arrived_at - INTERVAL 40 DAY - INTERVAL 1 MINUTE
        OR told_at > arrived_at + INTERVAL 1 DAY + INTERVAL 1 MINUTE
    ) AS is_doubted
SELECT
    tupleElement(record, 'event_time') AS event_time,
    tupleElement(record, 'received_at') AS received_at,
    tupleElement(record, 'kind') AS kind,
    tupleElement(record, 'source') AS source,
    tupleElement(record, 'program') AS program,
    tupleElement(record, 'host') AS host,
    tupleElement(record, 'vm') AS vm,
    tupleElement(record, 'datastore') AS datastore,
    tupleElement(record, 'severity') AS severity,
    tupleElement(record, 'thread') AS thread,
    tupleElement(record, 'op_id') AS op_id,
    tupleElement(record, 'head') AS head,
    tupleElement(record, 'message') AS message,
    tupleElement(record, 'peer') AS peer,
    tupleElement(record, 'file') AS file,
    tupleElement(record, 'generation') AS generation,
    tupleElement(record, 'offset') AS offset,
    tupleElement(record, 'line_bytes') AS line_bytes,
    tupleElement(record, 'run_id') AS run_id,
    if(is_doubted, 'arrival', tupleElement(record, 'time_quality')) AS time_quality,
    tupleElement(record, 'truncated') AS truncated,
    tupleElement(record, 'vm_name') AS vm_name,
    tupleElement(record, 'vm_id') AS vm_id,
    if(is_doubted, told_at, if(match(tupleElement(record, 'stamped_at'), utc_time), parseDateTime64BestEffortOrNull(tupleElement(record, 'stamped_at'), 6, 'UTC'), NULL)) AS stamped_at, -- noqa: LT05
    if(is_doubted, arrived_at, told_at) AS event_at,
    arrived_at AS received,
    multiIf(
        -- Parse the JSON a second time only if no field was extracted: from invalid JSON none is.
        NOT startsWith(raw, '{') OR (tupleElement(record, 'event_time') = '' AND NOT isValidJSON(raw)),
        'not a JSON object',
        NOT match(tupleElement(record, 'event_time'), utc_time) OR isNull(event_at), 'event_time is not a UTC time',
        NOT match(tupleElement(record, 'received_at'), utc_time) OR isNull(received), 'received_at is not a UTC time',
        tupleElement(record, 'kind') NOT IN ('line', 'progress'), 'kind is neither line nor progress',
        tupleElement(record, 'source') NOT IN ('syslog', 'vmware_log'), 'source is neither syslog nor vmware_log',
        tupleElement(record, 'kind') = 'line' AND tupleElement(record, 'message') = '' AND NOT JSONHas(raw, 'message'),
        'message is missing',
        isNull(tupleElement(record, 'offset')) AND JSONHas(raw, 'offset'), 'offset is not an integer',
        isNull(tupleElement(record, 'line_bytes')) AND JSONHas(raw, 'line_bytes'), 'line_bytes is not an integer',
        match(raw, wrong_type), concat(splitByChar('"', extract(raw, wrong_type))[2], ' has a value of the wrong type'),
        tupleElement(record, 'run_id') = '', 'run_id is missing',
        -- An impossible time is allowed here. It is stored as unknown, and the line has its arrival as event_time.
        tupleElement(record, 'stamped_at') != '' AND NOT match(tupleElement(record, 'stamped_at'), '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$'), -- noqa: LT05
        'stamped_at is not a UTC time',
        tupleElement(record, 'time_quality') NOT IN ('exact', 'year_inferred', 'arrival'), 'unknown time_quality',
        tupleElement(record, 'severity') NOT IN (
            '', 'emergency', 'alert', 'critical', 'error', 'warning', 'notice', 'info', 'debug'
        ),
        'unknown severity',
        tupleElement(record, 'op_id') != '' AND lengthUTF8(tupleElement(record, 'op_id')) > 200, 'op_id is too long',
        tupleElement(record, 'kind') = 'progress' AND JSONHas(raw, 'message'), 'a progress record has a message',
        ''
    ) AS fault,
    raw,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    coalesce(_timestamp_ms, now64(3)) AS topic_time
FROM records_queue;
