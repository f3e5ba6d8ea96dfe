-- Reads the topics of lines. One row is one record: a line or a progress record.
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
    truncated Bool
)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.syslog,esxi.vmware_log,esxi.backfill',
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
