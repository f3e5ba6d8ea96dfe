-- Reads the samples of esxtop and of vCenter. One row is one message, verbatim: a sample, or the samples of a
-- row of esxtop; see records_queue.sql.
CREATE TABLE IF NOT EXISTS samples_queue (raw String)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.esxtop,esxi.vcenter',
    kafka_group_name = 'clickhouse-samples',
    kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream';

-- Passes samples from the Kafka table to the views that fill the stored tables; it stores nothing.
-- `fault` is the reason for a rejection. It is empty for nearly all samples.
CREATE TABLE IF NOT EXISTS samples
(
    event_time LowCardinality(String),
    received_at LowCardinality(String),
    kind LowCardinality(String),
    source LowCardinality(String),
    origin LowCardinality(String),
    host LowCardinality(String),
    file LowCardinality(String),
    generation LowCardinality(String),
    offset Nullable(UInt64),
    line_bytes Nullable(UInt32),
    run_id LowCardinality(String),
    time_quality LowCardinality(String),
    object_class LowCardinality(String),
    device String,
    davg_ms Nullable(Float64),
    kavg_ms Nullable(Float64),
    gavg_ms Nullable(Float64),
    qavg_ms Nullable(Float64),
    davg_read_ms Nullable(Float64),
    davg_write_ms Nullable(Float64),
    gavg_read_ms Nullable(Float64),
    gavg_write_ms Nullable(Float64),
    commands_per_second Nullable(Float64),
    reads_per_second Nullable(Float64),
    writes_per_second Nullable(Float64),
    megabytes_read_per_second Nullable(Float64),
    megabytes_written_per_second Nullable(Float64),
    active_commands Nullable(Float64),
    queued_commands Nullable(Float64),
    failed_reserves_per_second Nullable(Float64),
    aborts_per_second Nullable(Float64),
    resets_per_second Nullable(Float64),
    event_at Nullable(DateTime64(6, 'UTC')),
    received Nullable(DateTime64(6, 'UTC')),
    fault LowCardinality(String),
    raw String,
    topic String,
    topic_partition UInt64,
    topic_offset UInt64,
    topic_time DateTime64(3)
)
ENGINE = Null;
