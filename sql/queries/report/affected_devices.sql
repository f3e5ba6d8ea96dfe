-- Affected devices: peak DAVG, hosts
WITH
    told AS
    (
        SELECT devices, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    named AS (SELECT arrayJoin(devices) AS called FROM told),

    slow AS
    (
        SELECT
            device,
            max(peak_ms) AS highest_ms,
            arraySort(groupUniqArray(toString(host))) AS slow_on
        FROM latency_episodes
        WHERE metric = 'davg' AND event_id IN (SELECT arrayJoin(evidence_ids) FROM told)
        GROUP BY device
    )

SELECT
    named.called AS device,
    slow.highest_ms AS peak_davg_ms,
    slow.slow_on AS slow_on
FROM named
LEFT JOIN slow ON named.called = slow.device
ORDER BY peak_davg_ms DESC, device ASC
LIMIT 40;
