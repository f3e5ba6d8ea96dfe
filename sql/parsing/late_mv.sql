-- Starts the flow of late samples; see records_mv.sql. Their values are in esxi.esxtop or esxi.vcenter.
CREATE MATERIALIZED VIEW IF NOT EXISTS late_mv TO late
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    CAST(JSONExtractKeysAndValuesRaw(raw) AS Map(String, String)) AS field,
    '^(19|2[0-2])[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)([.][0-9]{1,9})?Z$' AS utc_time, -- noqa: LT05
    parseDateTime64BestEffortOrNull(JSONExtractString(raw, 'event_time'), 3, 'UTC') AS time
SELECT
    JSONExtractString(raw, 'host') AS host,
    JSONExtractString(raw, 'object_class') AS object_class,
    JSONExtractString(raw, 'device') AS device,
    JSONExtractString(raw, 'run_id') AS run_id,
    time AS sampled_at,
    multiIf(
        empty(field), 'not a JSON object',
        NOT match(JSONExtractString(raw, 'event_time'), utc_time) OR isNull(time), 'event_time is not a UTC time',
        NOT match(field['object_class'], '^"[^"]'), 'object_class is not a string',
        NOT match(field['device'], '^"[^"]'), 'device is not a string',
        NOT match(field['run_id'], '^"[^"]'), 'run_id is not a string',
        NOT match(field['host'], '^("|null$|$)'), 'host is not a string',
        ''
    ) AS fault,
    raw,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    coalesce(_timestamp_ms, now64(3)) AS topic_time
FROM late_queue;
