-- Stuns by cause in the time range of the drawing
WITH told AS
    (
        SELECT datastores, vms, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    )

SELECT
    cause,
    count() AS stuns
FROM stuns
WHERE
    ended_at >= {from_at:DateTime64(6)} AND started_at <= {until_at:DateTime64(6)}
    AND (
        event_id IN (SELECT arrayJoin(evidence_ids) FROM told)
        OR datastore IN (SELECT arrayJoin(datastores) FROM told)
        OR vm IN (SELECT arrayJoin(vms) FROM told)
    )
GROUP BY cause
ORDER BY stuns DESC, cause ASC;
