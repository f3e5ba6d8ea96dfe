-- One row is one snapshot operation: a snapshot was created or removed from started_at to ended_at.
CREATE OR REPLACE VIEW snapshot_operations
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    host,
    vm,
    datastore,
    kind,
    name,
    op_id,
    started_at,
    ended_at,
    duration_ms,
    outcome,
    iterations,
    helper_sizes,
    is_converging,
    delta_bytes,
    pages,
    lazy_io_ms,
    pages_per_second,
    formula_ms,
    evidence,
    detected_at,
    run_id
FROM snapshot_operations_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
