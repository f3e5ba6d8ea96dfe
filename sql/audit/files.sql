-- How far is each file stored, and which files may lack something?
-- One row is one file. Where every line begins at the end of another, the sums of the hashes of all
-- beginnings and of all ends differ by the first beginning and the last end alone: so one pass finds
-- the files that are whole, without sorting their lines. What is stored twice looks suspicious too:
-- the view `coverage` tells, for these alone.
WITH
    pieces AS
    (
        SELECT generation, offset, line_bytes, file, received_at, FALSE AS is_esxtop
        FROM log_lines_stored
        WHERE generation != ''
        UNION ALL
        SELECT generation, offset, line_bytes, file, received_at, FALSE AS is_esxtop
        FROM rejected_lines_stored
        WHERE generation != ''
        UNION ALL
        SELECT
            generation,
            offset,
            any(samples.line_bytes) AS line_bytes,
            any(samples.file) AS file,
            max(samples.received_at) AS received_at,
            TRUE AS is_esxtop
        FROM latency_samples_stored AS samples
        WHERE generation != ''
        GROUP BY generation, offset
    )

SELECT
    generation,
    argMax(file, received_at) AS name,
    count() AS lines,
    max(offset + line_bytes) AS bytes_to,
    sum(cityHash64(offset)) - sum(cityHash64(offset + line_bytes))
    != cityHash64(min(offset)) - cityHash64(max(offset + line_bytes))
    -- The header row of an esxtop file is no line: what precedes its first sample is no gap.
    OR (min(offset) > 0 AND NOT max(is_esxtop)) AS is_suspicious
FROM pieces
GROUP BY generation;
