-- Reservation conflicts: all, failed, recovered
WITH told AS
    (
        SELECT evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    )

SELECT
    count() AS conflicts,
    countIf(outcome = 'failed') AS failed,
    countIf(outcome = 'recovered') AS recovered
FROM reservation_conflicts
WHERE event_id IN (SELECT arrayJoin(evidence_ids) FROM told);
