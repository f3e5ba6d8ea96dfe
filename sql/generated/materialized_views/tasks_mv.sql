-- Generated from schemas/task.yaml by `make generate`.
-- noqa: disable=AL03
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
    tupleElement(event, 'event_id') AS event_id,
    tupleElement(event, 'revision') AS revision,
    tupleElement(event, 'is_deleted') AS is_deleted,
    topic_time AS detected_at,
    tupleElement(event, 'run_id') AS run_id,
    tupleElement(event, 'kind') AS kind,
    tupleElement(event, 'user_name') AS user_name,
    parseDateTime64BestEffortOrZero(tupleElement(event, 'started_at'), 6, 'UTC') AS started_at,
    tupleElement(event, 'host') AS host,
    tupleElement(event, 'vm') AS vm,
    tupleElement(event, 'datastore') AS datastore,
    tupleElement(event, 'vm_name') AS vm_name,
    tupleElement(event, 'snapshot_name') AS snapshot_name,
    tupleElement(event, 'vcenter') AS vcenter,
    tupleElement(event, 'task_key') AS task_key,
    tupleElement(event, 'message') AS message
FROM events
WHERE topic = 'events.task' AND fault = '';
