-- Stuns, stunned VMs, worst stun
WITH told AS
    (
        SELECT evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    )

SELECT
    count() AS stuns,
    uniqExact(datastore, vm) AS stunned_vms,
    max(duration_us) AS worst_us,
    toString(argMax(vm, duration_us)) AS worst_vm
FROM stuns
WHERE event_id IN (SELECT arrayJoin(evidence_ids) FROM told);
