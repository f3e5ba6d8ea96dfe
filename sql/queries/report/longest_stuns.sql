-- Longest stuns
WITH told AS
    (
        SELECT evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    )

SELECT
    vm,
    datastore,
    host,
    started_at,
    ended_at,
    duration_us,
    cause,
    severity
FROM stuns
WHERE event_id IN (SELECT arrayJoin(evidence_ids) FROM told)
ORDER BY duration_us DESC, ended_at ASC
LIMIT 20;
