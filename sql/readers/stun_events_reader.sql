-- Reads events.stun. One row is one revision of one stun.
CREATE TABLE IF NOT EXISTS stun_events_reader
(
    event_id UUID,
    revision UInt64,
    is_deleted UInt8,
    run_id String,
    host String,
    vm String,
    datastore String,
    started_at String,
    ended_at String,
    duration_us UInt64,
    reported_us Nullable(UInt64),
    measured_by String,
    cause String,
    cause_detail String,
    migration_id Nullable(String),
    switchover_us Nullable(UInt64),
    is_quiesced Nullable(Bool),
    is_cbt Nullable(Bool),
    severity String,
    evidence Array(String)
)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'events.stun',
    kafka_group_name = 'clickhouse-stun-events',
    kafka_format = 'JSONEachRow',
    kafka_handle_error_mode = 'stream';

-- Where a stun passes on its way to its table; it keeps nothing.
CREATE TABLE IF NOT EXISTS stun_events ENGINE = Null EMPTY AS
SELECT
    *,
    _error AS error,
    _raw_message AS raw_message,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    _timestamp_ms AS topic_time
FROM stun_events_reader;
