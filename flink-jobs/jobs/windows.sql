-- What io.github.stunwatch.SampleWindows writes, by kind. Read by jobs/detect.py after samples.sql.

-- One row is one minute of one object (schemas/latency_window.v1), for its topic.
CREATE TEMPORARY VIEW window_events AS
SELECT `owner`, `message` AS `event` FROM sampled WHERE `kind` = 'window';

-- Samples whose window was already closed. ClickHouse recomputes their minutes.
CREATE TEMPORARY VIEW late_samples AS
SELECT `owner`, `message` AS `event` FROM sampled WHERE `kind` = 'late';

-- Which hosts send samples now; for lines see `seen` in detect.sql.
CREATE TEMPORARY VIEW seen_samples AS
SELECT `owner`, `event_time`, `host`, `run_id` FROM sampled WHERE `kind` = 'seen';

-- A 10 s window near a slow one as a record. Its message contains the counts, as JSON. A progress
-- record follows the last window of a replay.
CREATE TEMPORARY VIEW short_window_records AS
SELECT
  `owner`,
  `run_id`,
  JSON_OBJECT(
    KEY 'event_time' VALUE `event_time`,
    KEY 'kind' VALUE CASE `kind` WHEN 'progress' THEN 'progress' ELSE 'line' END,
    KEY 'source' VALUE 'esxtop',
    KEY 'host' VALUE `host`,
    KEY 'message' VALUE `message`,
    KEY 'offset' VALUE -1,
    KEY 'run_id' VALUE `run_id`,
    KEY 'time_quality' VALUE 'exact'
    ABSENT ON NULL
  ) AS `record`
FROM sampled
WHERE `kind` IN ('short_window', 'progress');
