-- What is live can be late. Read by jobs/detect.py after detect.sql; history has no watermark.

-- One row is one sample that came too late for its window.
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
