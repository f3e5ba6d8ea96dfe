-- Reads the samples that came too late for their window. One row is one message, verbatim.
CREATE TABLE IF NOT EXISTS late_reader (raw String)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.late',
    kafka_group_name = 'clickhouse-late',
    kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream';
