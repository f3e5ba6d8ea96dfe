-- The lines whose message contains all given words, in any case:
--   SELECT * FROM log_lines_with(words = 'lost access volume')
-- It filters by the text index first and removes duplicates later: FINAL cannot use the index.
CREATE OR REPLACE VIEW log_lines_with
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
FROM log_lines_stored
WHERE hasAllTokens(message, lower({words:String}))
ORDER BY event_time, received_at
LIMIT 1 BY source, program, host, datastore, vm, event_time, offset, line_hash;
