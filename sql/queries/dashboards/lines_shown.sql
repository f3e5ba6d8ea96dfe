-- One row is one log line, as in `log_lines`, with the columns that dashboards show.
CREATE OR REPLACE VIEW lines_shown
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_time AS logged_at,
    source,
    program,
    host,
    vm,
    datastore,
    severity,
    concat(head, message) AS line
FROM log_lines;
