-- Files of which bytes were stored before file_arrivals was; once more they are the same maxima.
INSERT INTO file_arrivals_stored (generation, is_samples, arrived_on, bytes_to)
SELECT
    generation,
    FALSE AS is_samples,
    toDate(received_at) AS arrived_on,
    max(offset + line_bytes) AS bytes_to
FROM log_lines_stored
WHERE generation != ''
GROUP BY generation, arrived_on;

INSERT INTO file_arrivals_stored (generation, is_samples, arrived_on, bytes_to)
SELECT
    generation,
    FALSE AS is_samples,
    toDate(received_at) AS arrived_on,
    max(offset + line_bytes) AS bytes_to
FROM rejected_lines_stored
WHERE generation != ''
GROUP BY generation, arrived_on;

INSERT INTO file_arrivals_stored (generation, is_samples, arrived_on, bytes_to)
SELECT
    generation,
    TRUE AS is_samples,
    toDate(received_at) AS arrived_on,
    max(offset + line_bytes) AS bytes_to
FROM latency_samples_stored
WHERE generation != '' AND object_class != 'datastore'
GROUP BY generation, arrived_on;
