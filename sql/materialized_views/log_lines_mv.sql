CREATE MATERIALIZED VIEW IF NOT EXISTS log_lines_mv TO log_lines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    assumeNotNull(event_at) AS event_time,
    assumeNotNull(received) AS given_received_at,
    source,
    program,
    host,
    vm,
    datastore,
    severity,
    thread,
    op_id,
    head AS given_head,
    message,
    peer,
    file,
    generation,
    coalesce(records.offset, 0) AS offset,
    coalesce(records.line_bytes, 0) AS line_bytes,
    run_id,
    time_quality,
    truncated,
    -- Too long for the detectors: see LONGEST_SEARCHED in flink-jobs/detectors/catalogue.py.
    lengthUTF8(message) > 4096 AS unsearched,
    vm_name,
    vm_id,
    stamped_at
FROM records
WHERE fault = '' AND kind = 'line';
