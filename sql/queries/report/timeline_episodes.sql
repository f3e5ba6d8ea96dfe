-- Latency episodes of the incident's devices, by source
WITH told AS
    (
        SELECT devices, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    )

SELECT
    device,
    origin,
    event_id IN (SELECT arrayJoin(evidence_ids) FROM told) AS belongs,
    min(started_at) AS first_at,
    max(coalesce(ended_at, {until_at:DateTime64(6)})) AS last_at,
    max(peak_ms) AS highest_ms,
    max(threshold_ms) AS limit_ms,
    count() AS episodes
FROM latency_episodes
WHERE
    metric = 'davg'
    AND started_at <= {until_at:DateTime64(6)}
    AND coalesce(ended_at, {until_at:DateTime64(6)}) >= {from_at:DateTime64(6)}
    AND (belongs OR device IN (SELECT arrayJoin(devices) FROM told))
GROUP BY device, origin, belongs, intDiv(toUnixTimestamp(started_at), {step_s:UInt32})
ORDER BY highest_ms DESC, first_at ASC
LIMIT 1000;
