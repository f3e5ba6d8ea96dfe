-- One row is one reservation conflict, but those that clusters of VMs cause on purpose.
CREATE OR REPLACE VIEW unexpected_conflicts AS
SELECT
    event_id,
    host,
    if(device = '', 'not told by the log', toString(device)) AS device,
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
