-- Reads the samples that arrived after their window closed. One row is one message, verbatim.
CREATE TABLE IF NOT EXISTS late_queue (raw String)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.late',
    kafka_group_name = 'clickhouse-late',
    kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream',
    -- Messages are rare, and looking for them costs as much as processing a few.
    kafka_consumer_reschedule_ms = 2000;

-- Passes late samples from the Kafka table to the views that fill the stored tables; it stores nothing.
CREATE TABLE IF NOT EXISTS late
(
    host String,
    object_class String,
    device String,
    run_id String,
    sampled_at Nullable(DateTime64(3, 'UTC')),
    fault String,
    raw String,
    topic String,
    topic_partition UInt64,
    topic_offset UInt64,
    topic_time DateTime64(3, 'UTC')
)
ENGINE = Null;
