-- One row is one log line of an ESX host or a VM; head and message together are the line, verbatim. A
-- line received by network with a timestamp more than 40 days before or one day after its arrival gets its
-- arrival as event_time (time_quality is arrival); stamped_at keeps the timestamp of the line. Lines of
-- files keep their time; Flink processes those dated a day or more in the future separately. Lines,
-- rejected lines and samples are stored by week of arrival. A line that is replayed in another week is
-- stored twice; this view shows it once, with its first arrival.
CREATE OR REPLACE VIEW log_lines
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_time,
    received_at,
    source,
    program,
    host,
    vm,
    datastore,
    severity,
    thread,
    op_id,
    head,
    message,
    peer,
    file,
    generation,
    offset,
    line_bytes,
    run_id,
    time_quality,
    truncated,
    vm_name,
    vm_id,
    stamped_at
FROM log_lines_stored FINAL;
