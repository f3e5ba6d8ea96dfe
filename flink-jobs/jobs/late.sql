-- Live mode only: history has no watermark, so nothing is late. Read by jobs/detect.py after
-- detect.sql.

-- One row is one sample that arrived too late for its window.
CREATE TEMPORARY TABLE late (
  `owner` STRING,
  `event` STRING
) WITH (
  'connector' = 'kafka',
  ${kafka_options},
  'topic' = 'esxi.late',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'raw',
  'value.fields-include' = 'EXCEPT_KEY',
  'sink.delivery-guarantee' = 'at-least-once'
);
