-- Processing of samples in the JVM. Read by jobs/detect.py, which replaces ${…} once per origin.
-- Origins have separate windows, because their intervals and delays differ.

-- One row is one measurement of one object (schemas/esxtop_sample.v1), in the host's own time. For
-- the watermark, that time is limited to arrival plus 5 s, so that the fast clock of one host does
-- not close the windows of others.
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
  `run_id` STRING,
  `arrived_at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL,
  `sampled_at` AS COALESCE(
    TRY_CAST(REPLACE(REPLACE(`event_time`, 'T', ' '), 'Z', '') AS TIMESTAMP(3)),
    TIMESTAMP '1970-01-01 00:00:00.000'
  ),
  WATERMARK FOR `sampled_at` AS
    CASE
      WHEN `sampled_at` > CAST(`arrived_at` AS TIMESTAMP(3)) + INTERVAL '5' SECOND
        THEN CAST(`arrived_at` AS TIMESTAMP(3)) + INTERVAL '5' SECOND
      ELSE `sampled_at`
    END - INTERVAL ${lateness}
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

-- A sample and its threshold: device latency, or guest latency if no other is measured, and kernel
-- latency. `weight` is the number of commands per second; unknown counts as many.
CREATE TEMPORARY VIEW ${origin}_measured AS
SELECT
  `owner`, `run_id`, `host`, `object_class`, `device`, `sampled_at`, `davg_ms`, `kavg_ms`,
  `commands_per_second`,
  CASE WHEN `davg_ms` IS NULL THEN 'gavg' ELSE 'davg' END AS `metric`,
  COALESCE(`davg_ms`, `gavg_ms`) AS `main_ms`,
  CASE
    WHEN `davg_ms` IS NULL AND `object_class` = 'nfs_volume' THEN ${gavg_nfs_ms}e0
    WHEN `davg_ms` IS NULL THEN ${gavg_virtual_disk_ms}e0
    WHEN `device` LIKE 'eui.%' OR `device` LIKE 't10.NVMe%' THEN ${davg_nvme_ms}e0
    ELSE ${davg_ms}e0
  END AS `main_limit_ms`,
  COALESCE(`commands_per_second`, ${enough_commands_per_second_count}e0) AS `weight`
FROM ${origin}_samples
WHERE
  `kind` = 'line' AND `object_class` <> 'device_world' AND COALESCE(`origin`, 'esxtop') = '${origin}'
  AND COALESCE(`davg_ms`, `gavg_ms`) IS NOT NULL AND ${samples_condition};

-- Above the threshold (slow), or not yet well below it (warm). One slow command among few is not
-- significant: either there are enough commands, or their latency is many times the threshold. The
-- local disk from which a host was booted is ignored.
CREATE TEMPORARY VIEW ${origin}_judged AS
SELECT
  *,
  CASE
    WHEN `main_ms` <= `main_limit_ms` THEN 0
    WHEN `weight` >= ${enough_commands_per_second_count} THEN 1
    WHEN `weight` * (`main_ms` / `main_limit_ms` - 1) >= ${slow_commands_per_second_count} THEN 1
    ELSE 0
  END AS `is_main_slow`,
  CASE
    WHEN `main_ms` <= `main_limit_ms` * ${closing_percent} / 100e0 THEN 0
    WHEN `weight` >= ${enough_commands_per_second_count} THEN 1
    WHEN `weight` * (`main_ms` / `main_limit_ms` - 1) >= ${slow_commands_per_second_count} THEN 1
    ELSE 0
  END AS `is_main_warm`,
  CASE
    WHEN `kavg_ms` IS NULL OR `kavg_ms` <= ${kavg_ms}e0 THEN 0
    WHEN `weight` >= ${enough_commands_per_second_count} THEN 1
    WHEN `weight` * (`kavg_ms` / ${kavg_ms}e0 - 1) >= ${slow_commands_per_second_count} THEN 1
    ELSE 0
  END AS `is_kavg_slow`,
  CASE
    WHEN `kavg_ms` IS NULL OR `kavg_ms` <= ${kavg_ms}e0 * ${closing_percent} / 100e0 THEN 0
    WHEN `weight` >= ${enough_commands_per_second_count} THEN 1
    WHEN `weight` * (`kavg_ms` / ${kavg_ms}e0 - 1) >= ${slow_commands_per_second_count} THEN 1
    ELSE 0
  END AS `is_kavg_warm`
FROM ${origin}_measured
WHERE `device` NOT LIKE 'mpx.%:C0:T0:L0';

-- One row is 10 seconds of one object.
CREATE TEMPORARY VIEW ${origin}_short_windows AS
SELECT
  `owner`, `run_id`, `host`, `object_class`, `device`, `metric`, `main_limit_ms`,
  window_time AS `short_window_time`,
  COUNT(*) AS `samples`,
  MAX(`sampled_at`) AS `last_at`,
  SUM(`is_main_slow`) AS `main_slow`,
  SUM(`is_main_warm`) AS `main_warm`,
  MIN(CASE WHEN `is_main_slow` = 1 THEN `sampled_at` END) AS `main_first`,
  MAX(CASE WHEN `is_main_slow` = 1 THEN `sampled_at` END) AS `main_last`,
  MAX(CASE WHEN `is_main_slow` = 1 THEN `main_ms` END) AS `main_peak`,
  SUM(CASE WHEN `is_main_slow` = 1 THEN `main_ms` ELSE 0 END) AS `main_sum`,
  SUM(`is_kavg_slow`) AS `kavg_slow`,
  SUM(`is_kavg_warm`) AS `kavg_warm`,
  MIN(CASE WHEN `is_kavg_slow` = 1 THEN `sampled_at` END) AS `kavg_first`,
  MAX(CASE WHEN `is_kavg_slow` = 1 THEN `sampled_at` END) AS `kavg_last`,
  MAX(CASE WHEN `is_kavg_slow` = 1 THEN `kavg_ms` END) AS `kavg_peak`,
  SUM(CASE WHEN `is_kavg_slow` = 1 THEN `kavg_ms` ELSE 0 END) AS `kavg_sum`
FROM TABLE(TUMBLE(TABLE ${origin}_judged, DESCRIPTOR(`sampled_at`), INTERVAL '10' SECOND))
GROUP BY
  `owner`, `run_id`, `host`, `object_class`, `device`, `metric`, `main_limit_ms`,
  window_start, window_end, window_time;

-- `slow_lately` counts the slow samples of a window and of the 30 windows before it. Only windows
-- near a slow one go to Python, which computes episodes. Nearly all windows are dropped here.
CREATE TEMPORARY VIEW ${origin}_short_windows_to_judge AS
SELECT
  *,
  SUM(`main_slow` + `kavg_slow`) OVER (
    PARTITION BY `owner`, `run_id`, `host`, `object_class`, `device`, `metric`, `main_limit_ms`
    ORDER BY `short_window_time` ROWS BETWEEN 30 PRECEDING AND CURRENT ROW
  ) AS `slow_lately`
FROM ${origin}_short_windows;

-- One row is one minute of one object (schemas/latency_window.v1), for its topic.
CREATE TEMPORARY VIEW ${origin}_window_events AS
SELECT
  `owner`,
  JSON_OBJECT(
    'event_id' VALUE CONCAT_WS('-', SUBSTRING(`name`, 1, 8), SUBSTRING(`name`, 9, 4),
      SUBSTRING(`name`, 13, 4), SUBSTRING(`name`, 17, 4), SUBSTRING(`name`, 21, 12)),
    'detector' VALUE 'latency_windows',
    'revision' VALUE `samples`,
    'is_deleted' VALUE 0,
    'run_id' VALUE `run_id`,
    'host' VALUE `host`,
    'object_class' VALUE `object_class`,
    'device' VALUE `device`,
    'origin' VALUE '${origin}',
    'window_seconds' VALUE 60,
    'window_start' VALUE CONCAT(REPLACE(CAST(`window_start` AS STRING), ' ', 'T'), 'Z'),
    'window_end' VALUE CONCAT(REPLACE(CAST(`window_end` AS STRING), ' ', 'T'), 'Z'),
    'avg_davg_ms' VALUE `avg_davg_ms`,
    'p95_davg_ms' VALUE `p95_davg_ms`,
    'max_davg_ms' VALUE `max_davg_ms`,
    'avg_kavg_ms' VALUE `avg_kavg_ms`,
    'max_kavg_ms' VALUE `max_kavg_ms`,
    'commands' VALUE `commands`,
    'samples' VALUE `samples`
  ) AS `event`
FROM (
  SELECT
    `owner`, `run_id`, `host`, `object_class`, `device`, window_start, window_end,
    MD5(CONCAT_WS('|', `host`, `object_class`, `device`, CAST(window_start AS STRING),
      -- CONCAT_WS omits NULL.
      NULLIF('${origin}', 'esxtop'))) AS `name`,
    AVG(`main_ms`) AS `avg_davg_ms`,
    PERCENTILE(`main_ms`, 0.95) AS `p95_davg_ms`,
    MAX(`main_ms`) AS `max_davg_ms`,
    AVG(`kavg_ms`) AS `avg_kavg_ms`,
    MAX(`kavg_ms`) AS `max_kavg_ms`,
    AVG(`commands_per_second`) * 60 AS `commands`,
    COUNT(*) AS `samples`
  FROM TABLE(TUMBLE(TABLE ${origin}_measured, DESCRIPTOR(`sampled_at`), INTERVAL '1' MINUTE))
  GROUP BY `owner`, `run_id`, `host`, `object_class`, `device`, window_start, window_end
);

-- A 10 s window near a slow one as a record. Its message contains the counts, as JSON.
CREATE TEMPORARY VIEW ${origin}_short_window_records AS
SELECT
  `owner`,
  CONCAT(REPLACE(CAST(`last_at` AS STRING), ' ', 'T'), 'Z') AS `event_time`,
  'line' AS `kind`,
  'esxtop' AS `source`,
  CAST(NULL AS STRING) AS `program`,
  `host`,
  CAST(NULL AS STRING) AS `vm`,
  CAST(NULL AS STRING) AS `datastore`,
  CAST(NULL AS STRING) AS `severity`,
  CAST(NULL AS STRING) AS `thread`,
  CAST(NULL AS STRING) AS `op_id`,
  CAST(NULL AS STRING) AS `head`,
  JSON_OBJECT(
    'short_window_seconds' VALUE 10,
    'short_window_end' VALUE CAST(`short_window_time` AS STRING),
    'last_at' VALUE CAST(`last_at` AS STRING),
    'object_class' VALUE `object_class`,
    'device' VALUE `device`,
    'origin' VALUE '${origin}',
    'metric' VALUE `metric`,
    'limit_ms' VALUE `main_limit_ms`,
    'samples' VALUE `samples`,
    'slow' VALUE `main_slow`,
    'warm' VALUE `main_warm`,
    'first' VALUE CAST(`main_first` AS STRING),
    'last' VALUE CAST(`main_last` AS STRING),
    'peak_ms' VALUE `main_peak`,
    'sum_ms' VALUE `main_sum`,
    'kavg_slow' VALUE `kavg_slow`,
    'kavg_warm' VALUE `kavg_warm`,
    'kavg_first' VALUE CAST(`kavg_first` AS STRING),
    'kavg_last' VALUE CAST(`kavg_last` AS STRING),
    'kavg_peak_ms' VALUE `kavg_peak`,
    'kavg_sum_ms' VALUE `kavg_sum`
  ) AS `message`,
  CAST(NULL AS STRING) AS `file`,
  CAST(NULL AS STRING) AS `generation`,
  CAST(-1 AS BIGINT) AS `offset`,
  `run_id`,
  'exact' AS `time_quality`,
  CAST(-1 AS BIGINT) AS `kafka_offset`
FROM ${origin}_short_windows_to_judge
WHERE `slow_lately` > 0;

-- Which hosts send samples; for lines see `seen` in detect.sql.
CREATE TEMPORARY VIEW ${origin}_seen_samples AS
SELECT `owner`, `event_time`, `host`, `run_id`
FROM ${origin}_samples
WHERE `kind` = 'line' AND ${samples_condition} AND is_first_seen(`host`, `event_time`);
