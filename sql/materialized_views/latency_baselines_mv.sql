-- Baselines from samples: of the device latency (or guest latency), and of the kernel latency.
CREATE MATERIALIZED VIEW IF NOT EXISTS latency_baselines_mv TO latency_baselines_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    object_class,
    host,
    device,
    measured.1 AS metric,
    toMonday(sampled_at) AS week,
    quantilesTDigestState(0.25, 0.5, 0.75)(log(greatest(assumeNotNull(measured.2), 0.001)))
        AS logarithms,
    origin
FROM latency_samples_stored
ARRAY JOIN [
    (if(isNull(davg_ms), 'gavg', 'davg'), coalesce(davg_ms, gavg_ms)),
    ('kavg', kavg_ms)
] AS measured
WHERE isNotNull(measured.2)
GROUP BY object_class, host, device, metric, week, origin;
