-- One row is one incident: what belongs together of stuns, conflicts, latency and paths, where the
-- fault lies, and what to do next.
CREATE OR REPLACE VIEW incidents AS
SELECT
    event_id,
    event_id AS incident_id,
    opened_at,
    closed_at,
    state,
    scope,
    verdict,
    confidence,
    next_steps,
    hosts,
    reporting_hosts,
    missing,
    devices,
    datastores,
    vms,
    stun_count,
    worst_stun_us,
    conflict_count,
    peak_davg_ms,
    severity,
    evidence_ids,
    evidence,
    detected_at,
    run_id
FROM incidents_stored FINAL;
