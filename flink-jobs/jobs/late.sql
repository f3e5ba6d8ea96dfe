-- What is live can be late. Read by jobs/detect.py after detect.sql; history has no watermark.

-- Samples whose minute was closed already: ClickHouse works these minutes out anew.
CREATE TEMPORARY VIEW late_samples AS
SELECT
  `owner`,
  JSON_OBJECT(
    'event_time' VALUE CONCAT(REPLACE(CAST(`sampled_at` AS STRING), ' ', 'T'), 'Z'),
    'host' VALUE `host`,
    'object_class' VALUE `object_class`,
    'device' VALUE `device`,
    'run_id' VALUE `run_id`
  ) AS `event`
FROM measured
WHERE FLOOR(`sampled_at` TO MINUTE) + INTERVAL '1' MINUTE <= CURRENT_WATERMARK(`sampled_at`);

-- One row is one sample that came too late for its window.
CREATE TEMPORARY TABLE late (
  `owner` STRING,
  `event` STRING
) WITH (
  'connector' = 'kafka',
  'properties.bootstrap.servers' = '${bootstrap}',
  'topic' = 'esxi.late',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'raw',
  'value.fields-include' = 'EXCEPT_KEY',
  'sink.delivery-guarantee' = 'at-least-once'
);
