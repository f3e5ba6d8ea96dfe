-- Peak DAVG: device and host
WITH
    told AS
    (
        SELECT evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    )

SELECT
    count() AS episodes,
    uniqExact(device) AS slow_devices,
    max(peak_ms) AS highest_ms,
    toString(argMax(device, peak_ms)) AS peak_device,
    toString(argMax(host, peak_ms)) AS peak_host
FROM latency_episodes
WHERE metric = 'davg' AND event_id IN (SELECT arrayJoin(evidence_ids) FROM told);
