-- Live lines that were stored before newest_lines was; the time in the line is unknown.
INSERT INTO newest_lines_stored (source, arrived_at, line_at)
SELECT
    source,
    least(max(last_received_at), now64(3, 'UTC')) AS arrived_at,
    arrived_at AS line_at
FROM source_activity_stored
GROUP BY source;
