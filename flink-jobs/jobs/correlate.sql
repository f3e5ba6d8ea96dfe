-- Input of incidents besides the job's own events. Read by jobs/detect.py.

-- One row is one event of a topic. Live mode reads only inventory. History mode reads all events
-- that were shipped before, because an incident may involve more than one replay.
CREATE TEMPORARY TABLE shipped_events (
  `topic` STRING METADATA VIRTUAL,
  `owner` STRING,
  `event` STRING
) WITH (
  'connector' = 'kafka',
  ${kafka_options},
  'topic' = '${topics}',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'raw',
  'value.fields-include' = 'EXCEPT_KEY',
  ${scan_options}
);
