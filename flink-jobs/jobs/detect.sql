-- What the JVM does before Python sees a line. Read by jobs/detect.py, which fills in ${…}.

-- Whether a line holds any of the detectors' literals; flink-jobs/prefilter/.
CREATE TEMPORARY SYSTEM FUNCTION contains_any AS 'io.github.stunwatch.ContainsAny';

-- One row is one record (schemas/log_line.v1). The Kafka key names the log's owner, so that all
-- records of an owner share a partition and keep their order. JSON that does not parse is skipped
-- here; ClickHouse reads the same message and keeps it in rejected_lines with its reason.
CREATE TEMPORARY TABLE records (
  `owner` STRING,
  `event_time` STRING,
  `kind` STRING,
  `source` STRING,
  `program` STRING,
  `host` STRING,
  `vm` STRING,
  `datastore` STRING,
  `severity` STRING,
  `thread` STRING,
  `head` STRING,
  `message` STRING,
  `file` STRING,
  `generation` STRING,
  `offset` BIGINT,
  `run_id` STRING,
  `time_quality` STRING,
  `kafka_offset` BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (
  'connector' = 'kafka',
  'properties.bootstrap.servers' = '${bootstrap}',
  'topic' = '${topics}',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'json',
  'value.json.ignore-parse-errors' = 'true',
  'value.fields-include' = 'EXCEPT_KEY',
  ${scan_options}
);

-- The lines that a detector may care about, and the progress records that tell it the time.
CREATE TEMPORARY VIEW candidates AS
SELECT *
FROM records
WHERE (contains_any(`message`, '${literals}') OR `kind` = 'progress') AND ${run_condition};

-- One row is one event on its way to the topic that its detector names: the connector cannot take
-- the topic from the row, so every topic is written by an INSERT of its own with an OPTIONS hint.
CREATE TEMPORARY TABLE events (
  `owner` STRING,
  `event` STRING
) WITH (
  'connector' = 'kafka',
  'properties.bootstrap.servers' = '${bootstrap}',
  'topic' = 'events',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'raw',
  'value.fields-include' = 'EXCEPT_KEY',
  'properties.linger.ms' = '20',
  'sink.delivery-guarantee' = 'at-least-once'
);
