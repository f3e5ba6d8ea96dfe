-- The highest offset of each file, per day of arrival. The lines of a run arrived on one day.
CREATE MATERIALIZED VIEW IF NOT EXISTS file_arrivals_mv TO file_arrivals_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    generation,
    source = 'esxtop' AS is_samples,
    toDate(last_received_at) AS arrived_on,
    max(run_to) AS bytes_to
FROM file_runs_stored
GROUP BY generation, is_samples, arrived_on;
