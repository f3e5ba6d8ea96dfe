-- One row is one tailed or replayed file: how much of it arrived, and which bytes did not. A gap is
-- [from, to) in bytes. The generation identifies a file across rotations. Lines expire
-- (schemas/log_line.yaml): bytes before expired lines are not counted as a gap. A duplicate line counts by its
-- first arrival, so a replay changes nothing here. A file of a syslog server holds lines of many hosts;
-- one of them is shown.
CREATE OR REPLACE VIEW coverage
DEFINER = transform SQL SECURITY DEFINER AS
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
        -- Samples of datastores come from lines, which log_lines contains.
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
    ),

    files AS
    (
        SELECT
            max(line_source) AS file_source,
            max(line_host) AS file_host,
            max(line_vm) AS file_vm,
            max(line_datastore) AS file_datastore,
            argMax(line_file, line_arrived_at) AS file_name,
            generation,
            count() AS line_count,
            sum(line_to - line_from) AS bytes_stored,
            max(line_to) AS stored_to,
            -- The header row of an esxtop file is not stored: bytes before its first sample are not a gap.
            arraySort(groupArrayIf(
                (seen_to, line_from),
                line_from > seen_to AND NOT (line_source = 'esxtop' AND seen_to = 0)
            )) AS holes,
            max(written_at) AS last_written_at,
            max(line_arrived_at) AS last_arrived_at
        FROM followed
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
    file_name AS file,
    files.generation AS generation,
    line_count AS lines,
    bytes_stored AS bytes_seen,
    greatest(stored_to, expired_to) AS bytes_to,
    arrayMap(
        hole -> (greatest(hole.1, expired_to), hole.2),
        arrayFilter(hole -> hole.2 > expired_to, holes)
    ) AS gaps,
    arraySum(gap -> gap.2 - gap.1, gaps) AS gap_bytes,
    last_written_at AS last_event_time,
    last_arrived_at AS last_received_at
FROM files
LEFT JOIN expired ON files.generation = expired.generation;
