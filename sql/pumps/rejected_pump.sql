-- Starts the flow of rejected lines; see records_pump.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS rejected_pump TO rejected
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    *,
    _error AS error,
    _raw_message AS raw_message,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    _timestamp_ms AS topic_time
FROM rejected_reader;
