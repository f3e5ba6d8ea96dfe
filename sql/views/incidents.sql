-- One row is one incident: stuns, conflicts, latency and path events that belong together, the scope of
-- the fault, and next steps, each with its evidence, its precondition and its risk.
CREATE OR REPLACE VIEW incidents
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    event_id AS incident_id,
    opened_at,
    closed_at,
    state,
    -- Rows of older versions have none.
    if(suspect = '' AND scope != 'device', toString(scope), toString(suspect)) AS suspect,
    scope,
    verdict,
    confidence,
    next_steps,
    hosts,
    reporting_hosts,
    missing,
    devices,
    paths,
    datastores,
    vms,
    stun_count,
    worst_stun_us,
    conflict_count,
    failed_command_count,
    peak_davg_ms,
    peak_ms,
    peak_metric,
    peak_source,
    severity,
    evidence_ids,
    evidence,
    detected_at,
    run_id
FROM incidents_stored FINAL;
