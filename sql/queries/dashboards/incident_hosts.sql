-- One row is one incident on one host; an incident without host has one row. active_until: an open incident
-- is active until now, so it is in every time range that ends now; see fleet_clock.
CREATE OR REPLACE VIEW incident_hosts
DEFINER = transform SQL SECURITY DEFINER AS
-- One minute before now, because the end of a chart's range is the time of its query, which has passed.
WITH (SELECT as_of - INTERVAL 1 MINUTE FROM fleet_clock) AS now_at
SELECT
    incident_id,
    opened_at,
    closed_at,
    if(
        state = 'open', greatest(opened_at, coalesce(now_at, opened_at)), coalesce(closed_at, opened_at)
    ) AS active_until,
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
