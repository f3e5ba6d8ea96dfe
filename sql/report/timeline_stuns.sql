-- When did VMs stand still, for how long, and why?
-- One row is what falls on one spot of the drawing: stuns about as long, at one time. Of several, the
-- cause of the longest is shown; stun_causes counts them all.
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
