-- Who started the snapshot or the migration that stunned a VM?
-- A stun belongs to the last task of its cause on that VM before its end. user_name is empty if vCenter
-- itself started it (DRS), or no task was found. Needs `stunwatch collect inventory`.
-- param vm = : part of the VM's name
-- param user = : part of the user's name
-- param days = 7 : days to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last stun
-- param hours = 6 : largest time between task and stun, hours
-- param most = 20 : number of stuns, the longest first
WITH
    least({until:DateTime64(6, 'UTC')}, (SELECT max(ended_at) FROM stuns_stored), now64(6, 'UTC')) AS until_at,
    until_at - toIntervalDay({days:UInt32}) AS from_at,

    stunned AS
    (
        SELECT
            vm, datastore, host, ended_at, duration_us, toString(cause) AS cause,
            multiIf(
                cause IN ('snapshot_create', 'snapshot_create_memory'), 'snapshot_create',
                cause = 'snapshot_remove', 'snapshot_remove',
                cause IN ('vmotion', 'storage_vmotion'), 'migrate',
                ''
            ) AS asked
        FROM stuns_stored FINAL
        PREWHERE ended_at > from_at AND ended_at <= until_at
        WHERE positionCaseInsensitive(vm, {vm:String}) > 0 AND asked != ''
    ),

    asked_for AS
    (
        SELECT
            vm, datastore, started_at, user_name, snapshot_name, vm_name, toString(kind) AS task,
            multiIf(
                task IN ('snapshot_remove', 'snapshot_remove_all', 'consolidate'), 'snapshot_remove',
                task IN ('migrate', 'relocate'), 'migrate',
                task
            ) AS asked
        FROM tasks_stored FINAL
        WHERE started_at > from_at - toIntervalHour({hours:UInt32})
    ),

    told AS
    (
        SELECT
            stunned.vm AS vm,
            stunned.datastore AS datastore,
            stunned.host AS host,
            stunned.ended_at AS ended_at,
            stunned.duration_us AS duration_us,
            stunned.cause AS cause,
            asked_for.started_at >= ended_at - toIntervalHour({hours:UInt32}) AS is_near,
            if(is_near, asked_for.user_name, '') AS user_name,
            if(is_near, asked_for.task, '') AS task,
            if(is_near, asked_for.snapshot_name, '') AS snapshot_name,
            if(is_near, toNullable(asked_for.started_at), NULL) AS asked_at
        FROM stunned
        ASOF LEFT JOIN asked_for
            ON
                stunned.vm = asked_for.vm
                AND stunned.datastore = asked_for.datastore
                AND stunned.asked = asked_for.asked
                AND stunned.ended_at >= asked_for.started_at
    )

SELECT
    vm,
    host,
    ended_at,
    round(duration_us / 1e6, 3) AS duration_s,
    cause,
    user_name,
    task,
    snapshot_name,
    asked_at
FROM told
WHERE positionCaseInsensitive(user_name, {user:String}) > 0
ORDER BY duration_us DESC, ended_at ASC, vm ASC
LIMIT {most:UInt32}
SETTINGS do_not_merge_across_partitions_select_final = 1;
