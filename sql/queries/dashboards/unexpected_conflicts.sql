-- One row is one unexpected reservation conflict: expected conflicts of VM clusters are left out.
CREATE OR REPLACE VIEW unexpected_conflicts
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    host,
    if(device = '', 'not in the log', toString(device)) AS device,
    path,
    datastore,
    dialect,
    outcome,
    is_stuck,
    started_at,
    ended_at,
    duration_ms / 1000 AS duration_s,
    last_remaining,
    arrayStringConcat(arraySlice(evidence, 1, 5), '\n') AS evidence_lines
FROM reservation_conflicts
WHERE NOT is_expected;
