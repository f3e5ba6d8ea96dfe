-- Affected VMs: stuns, worst stun
WITH
    told AS
    (
        SELECT vms, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    named AS (SELECT arrayJoin(vms) AS called FROM told),

    stood AS
    (
        SELECT vm, datastore, count() AS stuns, max(duration_us) AS worst_us
        FROM stuns
        WHERE event_id IN (SELECT arrayJoin(evidence_ids) FROM told)
        GROUP BY vm, datastore
    )

SELECT
    named.called AS vm,
    stood.datastore AS datastore,
    stood.stuns AS stuns,
    stood.worst_us AS worst_us
FROM named
LEFT JOIN stood ON named.called = stood.vm
ORDER BY worst_us DESC, vm ASC
LIMIT 40;
