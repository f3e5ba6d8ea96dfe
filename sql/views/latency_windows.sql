-- One row is one minute of one object: its latency from one source (`origin`). If samples arrive
-- after the end of the minute, the row is recalculated from all samples. After samples expire, the row
-- keeps its last values.
CREATE OR REPLACE VIEW latency_windows
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    touched AS
    (
        SELECT object_class, host, device, window_start
        FROM latency_windows_late
    ),

    worked_out_anew AS
    (
        SELECT
            reinterpretAsUUID(
                MD5(concat(
                    host, '|', object_class, '|', device, '|', toString(window_start),
                    if(latency_samples_stored.origin = '', '', concat('|', latency_samples_stored.origin))
                ))
            ) AS event_id,
            toUInt32(60) AS window_seconds,
            toDateTime64(toStartOfMinute(sampled_at), 3, 'UTC') AS window_start,
            window_start + INTERVAL 1 MINUTE AS window_end,
            host,
            object_class,
            device,
            if(latency_samples_stored.origin = '', 'esxtop', latency_samples_stored.origin) AS origin,
            avg(coalesce(davg_ms, gavg_ms)) AS avg_davg_ms,
            quantileExactInclusive(0.95)(coalesce(davg_ms, gavg_ms)) AS p95_davg_ms,
            max(coalesce(davg_ms, gavg_ms)) AS max_davg_ms,
            avg(kavg_ms) AS avg_kavg_ms,
            max(kavg_ms) AS max_kavg_ms,
            avg(commands_per_second) * 60 AS commands,
            count() AS samples,
            toDateTime64(max(received_at), 3, 'UTC') AS detected_at,
            any(run_id) AS run_id,
            TRUE AS is_anew
        FROM latency_samples_stored FINAL
        WHERE
            isNotNull(coalesce(davg_ms, gavg_ms))
            AND (object_class, host, device, toDateTime64(toStartOfMinute(sampled_at), 3, 'UTC')) IN (
                SELECT object_class, host, device, window_start
                FROM touched
            )
        GROUP BY host, object_class, device, window_start, latency_samples_stored.origin
    )

SELECT
    event_id,
    window_seconds,
    window_start,
    window_end,
    host,
    object_class,
    device,
    origin,
    avg_davg_ms,
    p95_davg_ms,
    max_davg_ms,
    avg_kavg_ms,
    max_kavg_ms,
    commands,
    samples,
    detected_at,
    run_id
FROM latency_windows_stored FINAL
WHERE (object_class, host, device, window_start) NOT IN (
    SELECT object_class, host, device, window_start
    FROM touched
)
UNION ALL
SELECT
    event_id,
    window_seconds,
    window_start,
    window_end,
    host,
    object_class,
    device,
    origin,
    avg_davg_ms,
    p95_davg_ms,
    max_davg_ms,
    avg_kavg_ms,
    max_kavg_ms,
    commands,
    samples,
    detected_at,
    run_id
FROM
(
    SELECT
        event_id, window_seconds, window_start, window_end, host, object_class, device, origin,
        avg_davg_ms, p95_davg_ms, max_davg_ms, avg_kavg_ms, max_kavg_ms, commands, samples, detected_at, run_id,
        FALSE AS is_anew
    FROM latency_windows_stored FINAL
    WHERE (object_class, host, device, window_start) IN (
        SELECT object_class, host, device, window_start
        FROM touched
    )
    UNION ALL
    SELECT
        event_id, window_seconds, window_start, window_end, host, object_class, device, origin,
        avg_davg_ms, p95_davg_ms, max_davg_ms, avg_kavg_ms, max_kavg_ms, commands, samples, detected_at, run_id,
        is_anew
    FROM worked_out_anew
) AS both
ORDER BY samples DESC, is_anew DESC
LIMIT 1 BY object_class, host, device, window_start, origin;
