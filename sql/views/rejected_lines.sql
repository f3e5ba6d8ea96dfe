-- One row is one rejected line or message, verbatim, and the reason.
CREATE OR REPLACE VIEW rejected_lines
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    received_at,
    source,
    host,
    vm,
    datastore,
    peer,
    file,
    generation,
    offset,
    line_bytes,
    run_id,
    line,
    reason
FROM rejected_lines_stored FINAL;
