-- One row is one task of vCenter: a snapshot created or removed, a migration, maintenance. started_at is
-- the time of the request; the VM's log shows how it ended. snapshot_name is empty if the snapshot existed
-- for less than a minute: snapshot_operations has its name.
CREATE OR REPLACE VIEW tasks
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    kind,
    user_name,
    started_at,
    host,
    vm,
    datastore,
    vm_name,
    snapshot_name,
    vcenter,
    task_key,
    message,
    detected_at,
    run_id
FROM tasks_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
