-- The runs of each file in a block of lines, rejected lines or samples, by day of arrival, because lines expire by day.
-- Samples of datastores come from lines, which are lines of their own.
CREATE MATERIALIZED VIEW IF NOT EXISTS lines_covered_mv TO file_runs_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    -- Where lines begin and end, in order. The file has no gap before a line that begins where an earlier one ends.
    arraySort(groupArray(offset)) AS starts,
    arraySort(groupArray(offset + line_bytes)) AS ends,
    arrayPushFront(arrayPopBack(ends), starts[1]) AS ends_before,
    arrayJoin(arraySplit((piece, before) -> piece.1 > before, arrayZip(starts, ends), ends_before)) AS run
SELECT
    generation,
    run[1].1 AS run_from,
    run[-1].2 AS run_to,
    length(arrayCompact(run.1)) AS lines,
    max(source) AS source,
    max(host) AS host,
    max(vm) AS vm,
    max(datastore) AS datastore,
    argMax(file, offset) AS file,
    max(event_time) AS last_event_time,
    max(received_at) AS last_received_at
FROM log_lines_stored
WHERE generation != ''
GROUP BY generation, toDate(received_at);

CREATE MATERIALIZED VIEW IF NOT EXISTS rejects_covered_mv TO file_runs_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    -- Where lines begin and end, in order. The file has no gap before a line that begins where an earlier one ends.
    arraySort(groupArray(offset)) AS starts,
    arraySort(groupArray(offset + line_bytes)) AS ends,
    arrayPushFront(arrayPopBack(ends), starts[1]) AS ends_before,
    arrayJoin(arraySplit((piece, before) -> piece.1 > before, arrayZip(starts, ends), ends_before)) AS run
SELECT
    generation,
    run[1].1 AS run_from,
    run[-1].2 AS run_to,
    length(arrayCompact(run.1)) AS lines,
    max(source) AS source,
    max(host) AS host,
    max(vm) AS vm,
    max(datastore) AS datastore,
    argMax(file, offset) AS file,
    CAST(NULL, 'Nullable(DateTime64(6, \'UTC\'))') AS last_event_time,
    max(received_at) AS last_received_at
FROM rejected_lines_stored
WHERE generation != ''
GROUP BY generation, toDate(received_at);

CREATE MATERIALIZED VIEW IF NOT EXISTS samples_covered_mv TO file_runs_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    -- Where lines begin and end, in order. The file has no gap before a line that begins where an earlier one ends.
    arraySort(groupArray(offset)) AS starts,
    arraySort(groupArray(offset + line_bytes)) AS ends,
    arrayPushFront(arrayPopBack(ends), starts[1]) AS ends_before,
    arrayJoin(arraySplit((piece, before) -> piece.1 > before, arrayZip(starts, ends), ends_before)) AS run
SELECT
    generation,
    run[1].1 AS run_from,
    run[-1].2 AS run_to,
    length(arrayCompact(run.1)) AS lines,
    'esxtop' AS source,
    max(host) AS host,
    '' AS vm,
    '' AS datastore,
    argMax(file, offset) AS file,
    max(sampled_at) AS last_event_time,
    max(received_at) AS last_received_at
FROM latency_samples_stored
WHERE generation != '' AND object_class != 'datastore'
GROUP BY generation, toDate(received_at);
