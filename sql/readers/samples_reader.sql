-- Reads esxi.esxtop. One row is one sample of one object, or a progress record.
-- Lines have a reader of their own: every column costs a microsecond a row.
CREATE TABLE IF NOT EXISTS samples_reader
(
    event_time String,
    received_at String,
    kind String,
    source String,
    host String,
    file String,
    generation String,
    offset UInt64,
    line_bytes UInt32,
    run_id String,
    time_quality String,
    object_class String,
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
    resets_per_second Nullable(Float64)
)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.esxtop',
    kafka_group_name = 'clickhouse-samples',
    kafka_format = 'JSONEachRow',
    kafka_handle_error_mode = 'stream';

-- Where a sample passes on its way from the reader to the tables; it keeps nothing.
-- `fault` says why a sample cannot be used; it is empty for nearly all.
CREATE TABLE IF NOT EXISTS samples ENGINE = Null EMPTY AS
SELECT
    *,
    CAST(NULL AS Nullable(DateTime64(6, 'UTC'))) AS event_at,
    CAST(NULL AS Nullable(DateTime64(6, 'UTC'))) AS received_at_or_null,
    '' AS fault,
    _raw_message AS raw_message,
    _topic AS topic,
    _partition AS topic_partition,
    _offset AS topic_offset,
    _timestamp_ms AS topic_time
FROM samples_reader;
