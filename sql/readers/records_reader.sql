-- Reads the raw topics. One row is one record: a line, a sample of esxtop or a progress record.
-- What does not parse arrives with `_error` set and blocks nothing.
CREATE TABLE IF NOT EXISTS records_reader
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
    offset UInt64,
    line_bytes UInt32,
    run_id String,
    time_quality String,
    truncated Bool,
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
    kafka_topic_list = 'esxi.syslog,esxi.vmware_log,esxi.esxtop,esxi.backfill',
    kafka_group_name = 'clickhouse-records',
    kafka_format = 'JSONEachRow',
    kafka_handle_error_mode = 'stream';

-- Where a record passes on its way from the reader to the tables; it keeps nothing.
-- `fault` says why a record cannot be used; it is empty for nearly all.
CREATE TABLE IF NOT EXISTS records ENGINE = Null EMPTY AS
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
FROM records_reader;
