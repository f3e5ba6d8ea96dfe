-- One row is one line or message that could not be used, verbatim, and why.
CREATE OR REPLACE VIEW rejected_lines AS
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
