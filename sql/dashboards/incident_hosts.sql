-- One row is one incident on one host; an incident that names no host has one row, too.
CREATE OR REPLACE VIEW incident_hosts AS
SELECT
    incident_id,
    opened_at,
    closed_at,
    state,
    severity,
    scope,
    verdict,
    confidence,
    tupleElement(next_steps[1], 'step') AS first_step,
    arrayStringConcat(devices, ', ') AS devices,
    arrayStringConcat(datastores, ', ') AS datastores,
    arrayStringConcat(vms, ', ') AS vms,
    length(hosts) AS affected_hosts,
    reporting_hosts,
    stun_count,
    worst_stun_us / 1000000 AS worst_stun_s,
    conflict_count,
    peak_davg_ms,
    run_id,
    arrayJoin(if(empty(hosts), [''], hosts)) AS host
FROM incidents;
