-- One row is one line of an ESX host or a VM; head and message together are the line, verbatim.
CREATE OR REPLACE VIEW log_lines AS
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
    vm_id
FROM log_lines_stored FINAL;
