-- Stuns: time, duration, cause
-- One row is one spot of the drawing: stuns of about the same duration at one time, with the cause of
-- the longest. stun_causes counts all of them.
WITH told AS
    (
        SELECT datastores, vms, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    )

SELECT
    event_id IN (SELECT arrayJoin(evidence_ids) FROM told) AS belongs,
    toString(argMax(cause, duration_us)) AS shown_cause,
    min(started_at) AS first_at,
    max(ended_at) AS last_at,
    max(duration_us) AS longest_us,
    toString(argMax(vm, duration_us)) AS longest_vm,
    count() AS stuns
FROM stuns
WHERE
    ended_at >= {from_at:DateTime64(6)} AND started_at <= {until_at:DateTime64(6)}
    AND (
        belongs
        OR datastore IN (SELECT arrayJoin(datastores) FROM told)
        OR vm IN (SELECT arrayJoin(vms) FROM told)
    )
GROUP BY
    belongs,
    intDiv(toUnixTimestamp(ended_at), 2 * {step_s:UInt32}),
    round(12 * log10(greatest(duration_us, 1)))
ORDER BY belongs DESC, longest_us DESC
LIMIT 3000;
