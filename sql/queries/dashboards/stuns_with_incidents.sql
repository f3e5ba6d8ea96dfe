-- One row is one stun, as in `stuns_by_time`, with the incident that it is evidence of; incident_id is empty
-- for a stun that belongs to no incident.
CREATE OR REPLACE VIEW stuns_with_incidents
DEFINER = transform SQL SECURITY DEFINER AS
WITH evidence AS
    (
        SELECT arrayJoin(evidence_ids) AS event_id, max(toString(incident_id)) AS incident_id
        FROM incidents
        GROUP BY event_id
    )

SELECT
    stuns.host AS host,
    stuns.vm AS vm,
    stuns.datastore AS datastore,
    stuns.ended_at AS ended_at,
    stuns.duration_us AS duration_us,
    stuns.duration_s AS duration_s,
    stuns.cause AS cause,
    stuns.severity AS severity,
    evidence.incident_id AS incident_id
FROM stuns_by_time AS stuns
LEFT JOIN evidence ON stuns.event_id = evidence.event_id;
