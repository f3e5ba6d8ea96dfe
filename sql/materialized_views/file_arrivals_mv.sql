-- The highest offset of each file, per day of arrival.
CREATE MATERIALIZED VIEW IF NOT EXISTS lines_arrived_mv TO file_arrivals_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    generation,
    FALSE AS is_samples,
    toDate(received_at) AS arrived_on,
    max(offset + line_bytes) AS bytes_to
FROM log_lines_stored
WHERE generation != ''
GROUP BY generation, arrived_on;

CREATE MATERIALIZED VIEW IF NOT EXISTS rejects_arrived_mv TO file_arrivals_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    generation,
    FALSE AS is_samples,
    toDate(received_at) AS arrived_on,
    max(offset + line_bytes) AS bytes_to
FROM rejected_lines_stored
WHERE generation != ''
GROUP BY generation, arrived_on;

CREATE MATERIALIZED VIEW IF NOT EXISTS samples_arrived_mv TO file_arrivals_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    generation,
    TRUE AS is_samples,
    toDate(received_at) AS arrived_on,
    max(offset + line_bytes) AS bytes_to
FROM latency_samples_stored
WHERE generation != '' AND object_class != 'datastore'
GROUP BY generation, arrived_on;
