-- Samples, before io.github.stunwatch.SampleWindows aggregates them. Read by jobs/detect.py, which replaces
-- ${…} once per origin.

-- One row is a sample of one object (schemas/esxtop_sample.v1) or of several (schemas/esxtop_row.v1),
-- live or of a replay, or a progress record, which ends the samples of a host in a replay.
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
  `devices` ARRAY<STRING>,
  `measures` ROW<
    `davg_ms` ARRAY<DOUBLE>,
    `kavg_ms` ARRAY<DOUBLE>,
    `gavg_ms` ARRAY<DOUBLE>,
    `commands_per_second` ARRAY<DOUBLE>
  >,
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
  COALESCE(`devices`, ARRAY[`device`]) AS `devices`,
  CASE WHEN `devices` IS NULL THEN ARRAY[`davg_ms`] ELSE `measures`.`davg_ms` END AS `davg_ms`,
  CASE WHEN `devices` IS NULL THEN ARRAY[`kavg_ms`] ELSE `measures`.`kavg_ms` END AS `kavg_ms`,
  CASE WHEN `devices` IS NULL THEN ARRAY[`gavg_ms`] ELSE `measures`.`gavg_ms` END AS `gavg_ms`,
  CASE WHEN `devices` IS NULL THEN ARRAY[`commands_per_second`] ELSE `measures`.`commands_per_second` END AS `commands_per_second`,
  `run_id`
FROM ${origin}_samples
WHERE COALESCE(`origin`, 'esxtop') = '${origin}';
