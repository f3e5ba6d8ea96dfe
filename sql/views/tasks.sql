-- One row is one thing that somebody asked vCenter for: a snapshot made or removed, a migration,
-- maintenance. started_at is when it was asked for; how it ended, the VM's log tells. snapshot_name is
-- empty where a snapshot was made and removed within a minute: snapshot_operations has its name.
CREATE OR REPLACE VIEW tasks AS
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
FROM tasks_stored FINAL;
