-- Input of incidents besides the job's own events. Read by jobs/correlate.py.

-- One row is one item of the inventory (schemas/inventory_item.v1).
CREATE TEMPORARY TABLE inventory (
  `topic` STRING METADATA VIRTUAL,
  `owner` STRING,
  `event` STRING
) WITH (
  'connector' = 'kafka',
  ${kafka_options},
  'topic' = '${topic}',
  'key.format' = 'raw',
  'key.fields' = 'owner',
  'value.format' = 'raw',
  'value.fields-include' = 'EXCEPT_KEY',
  ${scan_options}
);
