-- Samples, before io.github.stunwatch.SampleWindows aggregates them. Read by jobs/detect.py, which replaces
-- ${…} once per origin.

-- One row is one measurement of one object (schemas/esxtop_sample.v1), live or of a replay, or a
-- progress record, which ends the samples of a host in a replay.
CREATE TEMPORARY TABLE ${origin}_samples (
  `owner` STRING,
  `event_time` STRING,
  `kind` STRING,
  `host` STRING,
  `origin` STRING,
  `object_class` STRING,
  `device` STRING,
  `davg_ms` DOUBLE,
  `kavg_ms` DOUBLE,
  `gavg_ms` DOUBLE,
  `commands_per_second` DOUBLE,
  `run_id` STRING
) WITH (
  'connector' = 'kafka',
  ${kafka_options},
  'topic' = '${samples_topic}',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'json',
  'value.json.ignore-parse-errors' = 'true',
  'value.fields-include' = 'EXCEPT_KEY',
  ${samples_scan_options}
);

-- In the order of SampleWindows.FIELDS. A sample on the topic of another origin is ignored.
CREATE TEMPORARY VIEW ${origin}_measured AS
SELECT
  `owner`,
  `event_time`,
  `kind`,
  `host`,
  '${origin}' AS `origin`,
  `object_class`,
  `device`,
  `davg_ms`,
  `kavg_ms`,
  `gavg_ms`,
  `commands_per_second`,
  `run_id`
FROM ${origin}_samples
WHERE COALESCE(`origin`, 'esxtop') = '${origin}';
