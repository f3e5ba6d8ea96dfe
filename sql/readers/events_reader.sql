-- Reads the topics of events. One row is one message, verbatim: what an event holds is known to its
-- intake alone, so a new kind of event needs no reader of its own.
CREATE TABLE IF NOT EXISTS events_reader (raw String)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'events.stun,events.snapshot,events.reservation,events.latency_window,events.latency,events.unmap,events.scsi,events.path,events.quality,events.inventory,events.task,events.incident', -- noqa: LT05
    kafka_group_name = 'clickhouse-events',
    kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream';

-- Where an event passes on its way from the reader to the tables; it keeps nothing.
-- `fault` says why it cannot be used; `topic_time` is when it was detected.
CREATE TABLE IF NOT EXISTS events
(
    fault String,
    raw String,
    topic LowCardinality(String),
    topic_partition UInt64,
    topic_offset UInt64,
    topic_time DateTime64(3, 'UTC')
)
ENGINE = Null;
