-- Starts the flow of records. It is created last and dropped first, so that no record passes
-- while one of the intakes behind it is missing.
CREATE MATERIALIZED VIEW IF NOT EXISTS records_pump TO records AS
SELECT
    *,
    parseDateTime64BestEffortOrNull(event_time, 6, 'UTC') AS event_at,
    parseDateTime64BestEffortOrNull(received_at, 6, 'UTC') AS received_at_or_null,
    multiIf(
        _error != '', concat('not a record: ', _error),
        NOT match(event_time, '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$'),
        'event_time is no UTC time',
        isNull(event_at), 'event_time is no UTC time',
        isNull(received_at_or_null), 'received_at is no UTC time',
        kind NOT IN ('line', 'progress'), 'kind is neither line nor progress',
        source NOT IN ('syslog', 'vmware_log'), 'source is neither syslog nor vmware_log',
        ''
    ) AS fault,
    _raw_message AS raw_message,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    _timestamp_ms AS topic_time
FROM records_reader;
