-- Up to which offset is each file stored, and which files may have gaps?
-- One row is one file. In a complete file, each line begins at the end of the line before. Then the sum of the hashes
-- of all start offsets and that of all end offsets differ only by the first start and the last end. So one pass finds
-- complete files without sorting their lines. A file with duplicate lines is reported too; only for the reported files,
-- the view `coverage` shows whether bytes are missing.
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
    ),

    -- Bytes that were stored and have expired, as in the view coverage.
    expired AS
    (
        SELECT generation, max(bytes_to) AS expired_to
        FROM file_arrivals_stored
        WHERE arrived_on <= toDate(now('UTC')) - if(is_samples, 90, 30)
        GROUP BY generation
    ),

    files AS
    (
        SELECT
            generation,
            argMax(file, received_at) AS name,
            count() AS lines,
            max(offset + line_bytes) AS stored_to,
            sum(cityHash64(offset)) - sum(cityHash64(offset + line_bytes))
            != cityHash64(min(offset)) - cityHash64(max(offset + line_bytes))
            -- The header row of an esxtop file is not stored: bytes before its first sample are not a gap.
            OR (min(offset) > 0 AND NOT max(is_esxtop)) AS is_suspicious
        FROM pieces
        GROUP BY generation
    )

SELECT
    files.generation AS generation,
    name,
    lines,
    greatest(stored_to, expired_to) AS bytes_to,
    is_suspicious
FROM files
LEFT JOIN expired ON files.generation = expired.generation;
