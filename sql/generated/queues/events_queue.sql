-- Generated from schemas/ by `make generate`.
-- Reads the topics of events. One row is one message, verbatim. The materialized views parse the fields, so a new kind
-- of event needs no separate Kafka table.
CREATE TABLE IF NOT EXISTS events_queue (raw String)
ENGINE = Kafka(stunwatch_kafka)
SETTINGS
    kafka_topic_list = 'events.incident,events.inventory,events.latency,events.latency_window,events.nfs,events.path,events.quality,events.reservation,events.scsi,events.snapshot,events.stun,events.task,events.unmap', -- noqa: LT05
    kafka_group_name = 'clickhouse-events',
    kafka_format = 'RawBLOB',
    kafka_handle_error_mode = 'stream',
    -- The default of 500 ms, after every block, would be most of the latency of a rare event.
    kafka_consumer_reschedule_ms = 10;

-- Passes events from the Kafka table to the views that fill the stored tables; it stores nothing.
-- `fault` is the reason for a rejection; `topic_time` is when the event was detected.
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
