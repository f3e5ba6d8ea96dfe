-- One row is one UNMAP run (space reclamation) on a volume. fell_back is null if it is unknown.
CREATE OR REPLACE VIEW unmap_runs
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    host,
    volume,
    block_count,
    iterations,
    blocks_total,
    started_at,
    ended_at,
    duration_ms,
    blocks_per_second,
    fell_back,
    outcome,
    evidence,
    detected_at,
    run_id
FROM unmap_runs_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
