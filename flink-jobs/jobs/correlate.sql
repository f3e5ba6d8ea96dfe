-- What incidents are made of besides the job's own events. Read by jobs/detect.py.

-- One row is one event as it stands in its topic. Live reads only what inventory says; history reads
-- all events that others shipped before, for an incident is of a fleet and not of one replay.
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
