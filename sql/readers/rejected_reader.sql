-- Reads the dead-letter topic. One row is one line that a shipper or the pipeline could not use.
CREATE TABLE IF NOT EXISTS rejected_reader
(
    received_at String,
    source String,
    host String,
    vm String,
    datastore String,
    peer String,
    file String,
    generation String,
    offset UInt64,
    line_bytes UInt32,
    run_id String,
    line String,
    reason String
)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.rejected',
    kafka_group_name = 'clickhouse-rejected',
    kafka_format = 'JSONEachRow',
    kafka_handle_error_mode = 'stream';

-- Where a rejected line passes on its way to its table; it keeps nothing.
CREATE TABLE IF NOT EXISTS rejected ENGINE = Null EMPTY AS
SELECT
    *,
    _error AS error,
    _raw_message AS raw_message,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    _timestamp_ms AS topic_time
FROM rejected_reader;
