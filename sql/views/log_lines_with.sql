-- The lines whose message contains all given words, in any case:
--   SELECT * FROM log_lines_with(words = 'lost access volume')
-- It filters by the index first and removes duplicates later: FINAL cannot use the index. The index selects granules;
-- in these, the search for the longest word is cheaper than splitting every message into words.
CREATE OR REPLACE VIEW log_lines_with
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    arraySort(word -> -length(word), tokens(lower({words:String}), 'splitByNonAlpha')) AS wanted
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
WHERE
    notEmpty(wanted)
    AND positionCaseInsensitive(message, wanted[1]) > 0
    AND hasAll(tokens(lower(message), 'splitByNonAlpha'), wanted)
ORDER BY event_time, received_at
LIMIT 1 BY source, program, host, datastore, vm, event_time, generation, offset, line_hash;
