-- One row is one tailed or replayed file: how much of it arrived, and which bytes did not. A gap is
-- [from, to) in bytes. The generation identifies a file across rotations. Lines expire
-- (schemas/log_line.yaml): bytes before expired lines are not counted as a gap. If bytes arrive again,
-- they count once, by their first arrival; so a replay changes nothing here. If only a part of a file arrived again,
-- `lines` can be an estimate from the bytes. A file of a syslog server holds lines of many hosts; one of them is shown.
CREATE OR REPLACE VIEW coverage
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    -- For the order of the runs, few columns are read.
    followed AS
    (
        SELECT
            generation,
            run_from,
            run_to,
            lines,
            max(run_to) OVER (
                PARTITION BY generation ORDER BY run_from, run_to
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS seen_to
        FROM file_runs_stored
    ),

    holes AS
    (
        SELECT
            generation,
            sum(if(run_to > seen_to, run_to - greatest(run_from, seen_to), 0)) AS bytes_stored,
            -- Runs that follow each other, from the first byte of the file to its last: at each end, the longest run
            -- that begins there. A replay has other blocks, and so other runs, but they follow each other, too. The
            -- state is the end, the lines until there, the end of all runs, and whether no run continued in between.
            arrayFold(
                (state, run) -> multiIf(
                    run.1 < state.1, (state.1, state.2, greatest(state.3, run.2), state.4),
                    run.1 = state.1, (run.2, state.2 + run.3, greatest(state.3, run.2), state.4),
                    (run.2, state.2 + run.3, greatest(state.3, run.2), state.4 OR state.3 > state.1)
                ),
                arraySort(run -> (run.1, -toInt64(run.2)), groupArray((run_from, run_to, lines))),
                (toUInt64(0), toUInt64(0), toUInt64(0), toUInt8(0))
            ) AS followed_lines,
            arraySort(groupArrayIf((seen_to, run_from), run_from > seen_to)) AS all_holes
        FROM followed
        GROUP BY generation
    ),

    files AS
    (
        SELECT
            generation,
            max(runs.source) AS file_source,
            max(runs.host) AS file_host,
            max(runs.vm) AS file_vm,
            max(runs.datastore) AS file_datastore,
            -- The first arrival of the last bytes.
            argMin((runs.file, runs.last_received_at), (-toInt64(run_to), runs.last_received_at)) AS last_arrival,
            sum(runs.lines) AS arrived_lines,
            sum(run_to - run_from) AS arrived_bytes,
            max(run_to) AS stored_to,
            max(runs.last_event_time) AS last_written_at
        FROM file_runs_stored AS runs
        GROUP BY generation
    ),

    expired AS
    (
        SELECT generation, max(bytes_to) AS expired_to
        FROM file_arrivals_stored
        -- The retention of samples, and of lines (schemas).
        WHERE arrived_on <= toDate(now('UTC')) - if(is_samples, 90, 30)
        GROUP BY generation
    )

SELECT
    file_source AS source,
    file_host AS host,
    file_vm AS vm,
    file_datastore AS datastore,
    last_arrival.1 AS file,
    toLowCardinality(files.generation) AS generation,
    if(
        followed_lines.4 OR followed_lines.1 < followed_lines.3,
        toUInt64(round(arrived_lines * bytes_stored / arrived_bytes)),
        followed_lines.2
    ) AS lines,
    toInt64(bytes_stored) AS bytes_seen,
    greatest(stored_to, expired_to) AS bytes_to,
    arrayMap(
        hole -> (greatest(hole.1, expired_to), hole.2),
        -- The header row of an esxtop file is not stored: bytes before its first sample are not a gap.
        arrayFilter(hole -> hole.2 > expired_to AND NOT (file_source = 'esxtop' AND hole.1 = 0), all_holes)
    ) AS gaps,
    arraySum(gap -> gap.2 - gap.1, gaps) AS gap_bytes,
    last_written_at AS last_event_time,
    last_arrival.2 AS last_received_at
FROM files
INNER JOIN holes ON files.generation = holes.generation
LEFT JOIN expired ON files.generation = expired.generation;
