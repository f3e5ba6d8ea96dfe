-- Live mode only: history has no watermark, so nothing is late. Read by jobs/detect.py after
-- samples.sql, once per origin.

-- Samples whose minute was already closed. ClickHouse recomputes these minutes.
CREATE TEMPORARY VIEW ${origin}_late_samples AS
SELECT
  `owner`,
  JSON_OBJECT(
    'event_time' VALUE CONCAT(REPLACE(CAST(`sampled_at` AS STRING), ' ', 'T'), 'Z'),
    'host' VALUE `host`,
    'object_class' VALUE `object_class`,
    'device' VALUE `device`,
    'run_id' VALUE `run_id`
  ) AS `event`
FROM ${origin}_measured
WHERE FLOOR(`sampled_at` TO MINUTE) + INTERVAL '1' MINUTE <= CURRENT_WATERMARK(`sampled_at`);
