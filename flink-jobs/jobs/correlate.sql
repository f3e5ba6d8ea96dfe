-- Input of incidents besides the job's own events. Read by jobs/correlate.py.

-- One row is one item of the inventory (schemas/inventory_item.v1) or one incident
-- (schemas/incident.v1), as text.
CREATE TEMPORARY TABLE written_messages (
  `topic` STRING METADATA VIRTUAL,
  `event` STRING,
  `timestamp` TIMESTAMP_LTZ(3) METADATA VIRTUAL
) WITH (
  'connector' = 'kafka',
  ${kafka_options},
  'topic' = '${topics}',
  'format' = 'raw',
  ${scan_options}
);

CREATE TEMPORARY VIEW inventory_and_incidents AS
SELECT
  `topic`,
  `event`,
  DATE_FORMAT(`timestamp`, 'yyyy-MM-dd''T''HH:mm:ss.SSS''Z''') AS `written_at`
FROM written_messages;
