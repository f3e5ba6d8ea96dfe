-- Writes to the dead-letter topic what ClickHouse itself finds to break a schema.
CREATE TABLE IF NOT EXISTS rejected_writer
(
    received_at String,
    source String,
    host String,
    file String,
    offset UInt64,
    run_id String,
    line String,
    reason String
)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'esxi.rejected',
    kafka_group_name = 'clickhouse-rejected-writer',
    kafka_format = 'JSONEachRow';
