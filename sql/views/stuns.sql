-- One row is one stun: a VM was paused from started_at to ended_at.
CREATE OR REPLACE VIEW stuns
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    host,
    vm,
    datastore,
    started_at,
    ended_at,
    duration_us,
    reported_us,
    measured_by,
    cause,
    cause_detail,
    op_id,
    migration_id,
    switchover_us,
    is_quiesced,
    is_cbt,
    severity,
    evidence,
    detected_at,
    run_id
FROM stuns_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
