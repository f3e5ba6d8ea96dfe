-- Tables and views of the JVM, before Python receives a line. Read by jobs/detect.py, which
-- replaces ${…}, after windows.sql, whose views it uses.

-- One row is one record (schemas/log_line.v1). The Kafka key is the log key, so that all records of
-- a log share a partition and keep their order. The format drops lines that no view below needs
-- before it parses them (PrefilteredJson.java). Invalid JSON is skipped here; ClickHouse reads the
-- same message and stores it in rejected_lines with the reason. The columns are those that the views
-- read; Python receives `record`, the whole message.
CREATE TEMPORARY TABLE records (
  `owner` STRING,
  `event_time` STRING,
  `kind` STRING,
  `source` STRING,
  `host` STRING,
  `message` STRING,
  `run_id` STRING,
  `is_first_seen` BOOLEAN METADATA FROM 'value.is_first_seen' VIRTUAL,
  `record` STRING METADATA FROM 'value.record' VIRTUAL,
  `arrived_at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  `kafka_offset` BIGINT METADATA FROM 'offset' VIRTUAL
) WITH (
  'connector' = 'kafka',
  ${kafka_options},
  'topic' = '${topics}',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'prefiltered-json',
  'value.prefiltered-json.literals' = '${literals}',
  'value.prefiltered-json.longest' = '${longest_searched}',
  'value.prefiltered-json.ignore-parse-errors' = 'true',
  'value.fields-include' = 'EXCEPT_KEY',
  ${scan_options}
);

-- Which hosts send lines now: at most one row per host and ten minutes. Every verdict also counts
-- the unaffected hosts. These lines also set the clock of the fleet (incidents/fleet_clock.py), so a
-- line dated after its arrival counts at its arrival.
CREATE TEMPORARY VIEW seen AS
SELECT
  `owner`,
  LEAST(`event_time`, DATE_FORMAT(`arrived_at`, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''')) AS `event_time`,
  `source`,
  `host`,
  `run_id`
FROM records
WHERE `is_first_seen`
UNION ALL
SELECT
  `owner`,
  `event_time`,
  CAST(NULL AS STRING) AS `source`,
  `host`,
  `run_id`
FROM seen_samples;

-- Input of Python: lines with a literal of a detector, if they are not too long; progress records,
-- which advance the time; 10 s windows near slow samples; hosts that send lines. If vCenter repeats
-- an event of a host, the line gets the key of the host that it names (detectors/host_events.py).
CREATE TEMPORARY VIEW candidates AS
SELECT
  CASE
    WHEN contains_any(`message`, ' detected on ', ${longest_searched})
      THEN COALESCE(NULLIF(LOWER(REGEXP_EXTRACT(`message`, '${copy_owner}', 2)), ''), `owner`)
    ELSE `owner`
  END AS `owner`,
  `run_id`,
  `kafka_offset`,
  `record`
FROM records
WHERE
  (contains_any(`message`, '${literals}', ${longest_searched}) OR `kind` = 'progress')
  AND `kind` IN ('line', 'progress')
UNION ALL
SELECT
  `owner`,
  `run_id`,
  CAST(-1 AS BIGINT) AS `kafka_offset`,
  `record`
FROM short_window_records
UNION ALL
SELECT
  `owner`,
  `run_id`,
  CAST(-1 AS BIGINT) AS `kafka_offset`,
  JSON_OBJECT(
    KEY 'event_time' VALUE `event_time`,
    KEY 'kind' VALUE 'seen',
    KEY 'source' VALUE `source`,
    KEY 'host' VALUE `host`,
    KEY 'run_id' VALUE `run_id`
    ABSENT ON NULL
  ) AS `record`
FROM seen;

-- One row is one event for the topic that it names.
CREATE TEMPORARY TABLE events (
  `topic` STRING METADATA,
  `owner` STRING,
  `event` STRING
) WITH (
  'connector' = 'kafka',
  ${kafka_options},
  'topic' = '${written_topics}',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'raw',
  'value.fields-include' = 'EXCEPT_KEY',
  'properties.linger.ms' = '20',
  'sink.delivery-guarantee' = 'at-least-once'
);
