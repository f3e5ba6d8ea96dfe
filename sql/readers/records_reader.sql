-- Reads the topics of lines. One row is one message, verbatim: parsing it here, in the engine, costs a
-- microsecond a column (docs/decisions/0001).
CREATE TABLE IF NOT EXISTS records_reader (raw String)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.syslog,esxi.vmware_log,esxi.backfill',
    kafka_group_name = 'clickhouse-records',
    kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream';

-- Where a record passes on its way from the reader to the tables; it keeps nothing.
-- `fault` says why it cannot be used; it is empty for nearly all.
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
