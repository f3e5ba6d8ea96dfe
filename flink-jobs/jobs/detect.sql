-- What the JVM does before Python sees a line. Read by jobs/detect.py, which fills in ${…}, after
-- samples.sql, whose views of all origins together it uses.

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
  ${kafka_options},
  'topic' = '${topics}',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'json',
  'value.json.ignore-parse-errors' = 'true',
  'value.fields-include' = 'EXCEPT_KEY',
  ${scan_options}
);

-- That a host was heard, every ten minutes: who is well is part of every verdict.
CREATE TEMPORARY VIEW heard AS
SELECT `owner`, `event_time`, `host`, `run_id`
FROM records
WHERE
  `kind` = 'line' AND `source` = 'syslog' AND ${run_condition} AND is_first_heard(`host`, `event_time`)
UNION ALL
SELECT *
FROM heard_samples;

CREATE TEMPORARY VIEW heard_records AS
SELECT
  `owner`,
  `event_time`,
  'heard' AS `kind`,
  CAST(NULL AS STRING) AS `source`,
  CAST(NULL AS STRING) AS `program`,
  `host`,
  CAST(NULL AS STRING) AS `vm`,
  CAST(NULL AS STRING) AS `datastore`,
  CAST(NULL AS STRING) AS `severity`,
  CAST(NULL AS STRING) AS `thread`,
  CAST(NULL AS STRING) AS `head`,
  CAST(NULL AS STRING) AS `message`,
  CAST(NULL AS STRING) AS `file`,
  CAST(NULL AS STRING) AS `generation`,
  CAST(-1 AS BIGINT) AS `offset`,
  `run_id`,
  CAST(NULL AS STRING) AS `time_quality`,
  CAST(-1 AS BIGINT) AS `kafka_offset`
FROM heard;

-- What goes on to Python: the lines that a detector may care about, the progress records that tell
-- it the time, and the slices of note, as records too.
CREATE TEMPORARY VIEW candidates AS
SELECT *
FROM records
WHERE
  (contains_any(`message`, '${literals}') OR `kind` = 'progress')
  AND `kind` IN ('line', 'progress') AND ${run_condition}
UNION ALL
SELECT *
FROM slice_records
UNION ALL
SELECT *
FROM heard_records;

-- One row is one event on its way to the topic that its detector names: the connector cannot take
-- the topic from the row, so every topic is written by an INSERT of its own with an OPTIONS hint.
CREATE TEMPORARY TABLE events (
  `owner` STRING,
  `event` STRING
) WITH (
  'connector' = 'kafka',
  ${kafka_options},
  'topic' = 'events',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'raw',
  'value.fields-include' = 'EXCEPT_KEY',
  'properties.linger.ms' = '20',
  'sink.delivery-guarantee' = 'at-least-once'
);
