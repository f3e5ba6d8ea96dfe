-- Starts the flow of stuns; see records_pump.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS stun_events_pump TO stun_events AS
SELECT
    *,
    _error AS error,
    _raw_message AS raw_message,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    _timestamp_ms AS topic_time
FROM stun_events_reader;
