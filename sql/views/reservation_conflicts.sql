-- One row is one count-down of retries (sync_cr), one episode of refused commands of a device
-- (device_status) or one episode of long reservations of a volume (long_reservation).
CREATE OR REPLACE VIEW reservation_conflicts AS
SELECT
    event_id,
    host,
    world_id,
    opcode,
    first_remaining,
    last_remaining,
    steps,
    started_at,
    ended_at,
    duration_ms,
    eta_ms,
    outcome,
    device,
    dialect,
    is_stuck,
    is_expected,
    evidence,
    detected_at,
    run_id
FROM reservation_conflicts_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
