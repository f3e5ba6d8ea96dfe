-- One row is one file that was tailed or replayed: how much of it arrived, and which bytes did not.
-- A gap is [from, to) in bytes. A file's generation outlives its name: rotation renames files.
-- A line that came twice counts by its first arrival, so that a replay changes nothing here.
-- A file that a syslog server wrote holds lines of many hosts; one of them is shown.
CREATE OR REPLACE VIEW coverage AS
WITH
    pieces AS
    (
        SELECT
            source, host, vm, datastore, file, generation, offset, line_bytes,
            event_time, received_at AS arrived_at
        FROM log_lines_stored
        WHERE generation != ''
        UNION ALL
        SELECT
            source, host, vm, datastore, file, generation, offset, line_bytes,
            NULL AS event_time, received_at AS arrived_at
        FROM rejected_lines_stored
        WHERE generation != ''
        UNION ALL
        SELECT
            'esxtop' AS source, host, '' AS vm, '' AS datastore, file, generation, offset,
            line_bytes, sampled_at AS event_time, received_at AS arrived_at
        FROM latency_samples_stored
        -- A datastore's samples come out of lines, which are in log_lines already.
        WHERE generation != '' AND object_class != 'datastore'
    ),

    lines AS
    (
        SELECT
            generation,
            offset AS line_from,
            offset + max(line_bytes) AS line_to,
            max(source) AS line_source,
            max(host) AS line_host,
            max(vm) AS line_vm,
            max(datastore) AS line_datastore,
            argMin(file, arrived_at) AS line_file,
            max(event_time) AS written_at,
            min(arrived_at) AS line_arrived_at
        FROM pieces
        GROUP BY generation, offset
    ),

    followed AS
    (
        SELECT
            *,
            max(line_to) OVER (
                PARTITION BY generation ORDER BY line_from
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS seen_to
        FROM lines
    )

SELECT
    max(line_source) AS source,
    max(line_host) AS host,
    max(line_vm) AS vm,
    max(line_datastore) AS datastore,
    argMax(line_file, line_arrived_at) AS file,
    generation,
    count() AS lines,
    sum(line_to - line_from) AS bytes_seen,
    max(line_to) AS bytes_to,
    -- The header row of an esxtop file is no line: what precedes its first sample is no gap.
    arraySort(groupArrayIf(
        (seen_to, line_from),
        line_from > seen_to AND NOT (line_source = 'esxtop' AND seen_to = 0)
    )) AS gaps,
    arraySum(gap -> gap.2 - gap.1, gaps) AS gap_bytes,
    max(written_at) AS last_event_time,
    max(line_arrived_at) AS last_received_at
FROM followed
GROUP BY generation;
