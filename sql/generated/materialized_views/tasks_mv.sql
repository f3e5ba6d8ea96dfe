-- Generated from schemas/task.yaml by `make generate`.
CREATE MATERIALIZED VIEW IF NOT EXISTS tasks_mv TO tasks_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    JSONExtract(raw, 'Tuple(
        event_id UUID,
        revision UInt64,
        is_deleted UInt8,
        run_id String,
        kind String,
        user_name String,
        started_at String,
        host String,
        vm String,
        datastore String,
        vm_name String,
        snapshot_name String,
        vcenter String,
        task_key String,
        message String
    )') AS event
SELECT
    event.event_id AS event_id,
    event.revision AS revision,
    event.is_deleted AS is_deleted,
    topic_time AS detected_at,
    event.run_id AS run_id,
    event.kind AS kind,
    event.user_name AS user_name,
    parseDateTime64BestEffortOrZero(event.started_at, 6, 'UTC') AS started_at,
    event.host AS host,
    event.vm AS vm,
    event.datastore AS datastore,
    event.vm_name AS vm_name,
    event.snapshot_name AS snapshot_name,
    event.vcenter AS vcenter,
    event.task_key AS task_key,
    event.message AS message
FROM events
WHERE topic = 'events.task' AND fault = '';
