-- Reads the dead-letter topic. One row is one message, verbatim; see records_queue.sql.
CREATE TABLE IF NOT EXISTS rejected_queue (raw String)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.rejected',
    kafka_group_name = 'clickhouse-rejected',
    kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream',
    -- Messages are rare, and looking for them costs as much as processing a few.
    kafka_consumer_reschedule_ms = 2000;

-- Passes rejected lines from the Kafka table to the view that fills the stored table; it stores nothing. One row is
-- one line that a shipper or a job rejected. `fault` is set if the message itself is invalid.
CREATE TABLE IF NOT EXISTS rejected
(
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
    reason String,
    received Nullable(DateTime64(6, 'UTC')),
    fault String,
    raw String,
    topic String,
    topic_partition UInt64,
    topic_offset UInt64,
    topic_time DateTime64(3, 'UTC')
)
ENGINE = Null;
