-- Reads the topics of lines. One row is one message, verbatim. Parsing it in the Kafka engine would cost about a
-- microsecond per column (docs/decisions/0001).
CREATE TABLE IF NOT EXISTS records_queue (raw String)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.syslog,esxi.vmware_log,esxi.backfill',
    kafka_group_name = 'clickhouse-records',
    kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream',
    -- The default of 500 ms, after every block, would be most of the latency of a rare line.
    kafka_consumer_reschedule_ms = 10;

-- Passes records from the Kafka table to the views that fill the stored tables; it stores nothing.
-- `fault` is the reason for a rejection. It is empty for nearly all records.
CREATE TABLE IF NOT EXISTS records
(
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
    stamped_at Nullable(DateTime64(6, 'UTC')),
    event_at Nullable(DateTime64(6, 'UTC')),
    received Nullable(DateTime64(6, 'UTC')),
    fault String,
    raw String,
    topic String,
    topic_partition UInt64,
    topic_offset UInt64,
    topic_time DateTime64(3)
)
ENGINE = Null;
