-- The names of hosts in samples: one row per name in a block of samples.
CREATE MATERIALIZED VIEW IF NOT EXISTS owners_sampled_mv TO owners_seen_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    host,
    '' AS datastore,
    '' AS vm,
    '' AS peer,
    max(assumeNotNull(received)) AS seen_at
FROM samples
WHERE fault = '' AND kind = 'line' AND host != ''
GROUP BY ALL;
