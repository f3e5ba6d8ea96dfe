-- Starts the flow of events; see records_pump.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS events_pump TO events
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id Nullable(UUID),
        revision Nullable(UInt64),
        is_deleted Nullable(UInt8),
        run_id Nullable(String),
        started_at Nullable(String),
        ended_at Nullable(String),
        observed_at Nullable(String),
        detected_at Nullable(String),
        opened_at Nullable(String),
        closed_at Nullable(String)
    )') AS event
SELECT
    multiIf(
        NOT startsWith(raw, '{') OR NOT isValidJSON(raw), 'it is no JSON object',
        isNull(event.event_id), 'event_id is no UUID',
        isNull(event.revision), 'revision is no whole number',
        isNull(event.is_deleted), 'is_deleted is no number',
        isNull(event.run_id), 'run_id is missing',
        JSONHas(raw, 'started_at')
            AND isNull(parseDateTime64BestEffortOrNull(event.started_at, 6, 'UTC')),
        'started_at is no time',
        JSONType(raw, 'ended_at') = 'String'
            AND isNull(parseDateTime64BestEffortOrNull(event.ended_at, 6, 'UTC')),
        'ended_at is no time',
        JSONHas(raw, 'observed_at')
            AND isNull(parseDateTime64BestEffortOrNull(event.observed_at, 6, 'UTC')),
        'observed_at is no time',
        JSONHas(raw, 'detected_at')
            AND isNull(parseDateTime64BestEffortOrNull(event.detected_at, 3, 'UTC')),
        'detected_at is no time',
        JSONHas(raw, 'opened_at')
            AND isNull(parseDateTime64BestEffortOrNull(event.opened_at, 6, 'UTC')),
        'opened_at is no time',
        JSONType(raw, 'closed_at') = 'String'
            AND isNull(parseDateTime64BestEffortOrNull(event.closed_at, 6, 'UTC')),
        'closed_at is no time',
        ''
    ) AS fault,
    raw,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    _timestamp_ms AS topic_time
FROM events_reader;
