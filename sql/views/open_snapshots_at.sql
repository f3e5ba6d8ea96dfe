-- One row is one snapshot that was open at a time, as far as the logs show:
--   SELECT * FROM open_snapshots_at(until = '2024-03-10 06:00:00', vm = 'web', datastore = '')
--
-- An `until` in the future is the reference time of fleet_clock. vm and datastore are parts of names. No
-- log names the snapshot that is removed: a removal closes the newest open one, or all of them if a task or
-- a line of hostd shows "remove all". open_at_least: open snapshots of the VM, without those created before
-- its log begins or while it was off.
-- failed_removals, unclear_removals: later removals that failed, or that have no logged end.
-- grows_bytes_per_second: earlier growth of this VM's deltas: the size at a removal divided by the age.
CREATE OR REPLACE VIEW open_snapshots_at
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    parseDateTime64BestEffort({until:String}, 6, 'UTC') AS until_given,
    if(until_given > now64(6, 'UTC'), (SELECT as_of FROM fleet_clock), until_given) AS until_at,

    -- VMs with possibly open snapshots: a creation without later removal, or rows with several revisions.
    -- Most VMs have none; the whole history is read only for these.
    suspects AS
    (
        SELECT any(datastore) AS its_datastore, any(vm) AS its_vm
        FROM snapshot_operations_stored
        WHERE
            started_at <= until_at
            AND ({vm:String} = '' OR positionCaseInsensitive(vm, {vm:String}) > 0)
            AND ({datastore:String} = '' OR positionCaseInsensitive(datastore, {datastore:String}) > 0)
        -- One number as the key is five times as fast as two names.
        GROUP BY cityHash64(datastore, vm)
        HAVING
            max(is_deleted OR (kind = 'remove' AND outcome != 'ok'))
            -- Two creations in a row, or a creation at the end: 0 is a creation, 1 a removal.
            OR hasSubstr(
                arrayPushBack(
                    arrayMap(
                        operation -> toUInt8(operation % 2),
                        -- Times in order; those of removals are odd.
                        arrayCompact(
                            arraySort(groupArray(toUnixTimestamp64Micro(started_at) * 2 + (kind = 'remove')))
                        )
                    ),
                    toUInt8(0)
                ),
                [toUInt8(0), toUInt8(0)]
            )
    ),

    -- Tasks of vCenter that remove all snapshots of a VM.
    asked AS
    (
        SELECT datastore, vm, groupArray(started_at) AS asked_at
        FROM tasks
        WHERE kind = 'snapshot_remove_all'
        GROUP BY datastore, vm
    ),

    -- Stuns with a line of hostd that shows the removal of all snapshots.
    stunned AS
    (
        SELECT datastore, vm, groupArray((started_at, ended_at)) AS stunned_at
        FROM stuns
        WHERE
            cause = 'snapshot_remove'
            -- FINAL reads the evidence of few rows: those with such a line in any revision.
            AND (datastore, vm, event_id) IN (
                SELECT datastore, vm, event_id
                FROM stuns_stored
                PREWHERE cause = 'snapshot_remove' AND op_id != ''
                WHERE
                    (datastore, vm) IN (SELECT its_datastore, its_vm FROM suspects)
                    -- … Task Created : haTask-21-vim.VirtualMachine.removeAllSnapshots-4711
                    AND arrayExists(line -> position(line, '.removeAllSnapshots-') > 0, evidence)
            )
            AND arrayExists(line -> position(line, '.removeAllSnapshots-') > 0, evidence)
        GROUP BY datastore, vm
    ),

    operations AS
    (
        SELECT
            *,
            max(if(kind = 'remove', started_at, toDateTime64(0, 6, 'UTC'))) OVER (
                PARTITION BY datastore, vm ORDER BY started_at ASC, kind ASC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS removed_before_at,
            max(if(kind != 'remove' AND outcome = 'ok', started_at, toDateTime64(0, 6, 'UTC'))) OVER (
                PARTITION BY datastore, vm ORDER BY started_at ASC, kind ASC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS created_before_at
        FROM snapshot_operations
        WHERE (datastore, vm) IN (SELECT its_datastore, its_vm FROM suspects) AND started_at <= until_at
    ),

    -- Number of open snapshots after each operation, counted from the first. A creation without a logged
    -- end may have created one, which the next removal closes.
    counted AS
    (
        SELECT
            operations.host AS host,
            operations.vm AS vm,
            operations.datastore AS datastore,
            name,
            kind,
            outcome,
            started_at,
            ended_at,
            if(
                kind = 'remove' AND delta_bytes > 0
                AND created_before_at > toDateTime64(0, 6, 'UTC') AND started_at > created_before_at,
                delta_bytes / dateDiff('second', created_before_at, started_at),
                NULL
            ) AS grew_bytes_per_second,
            sum(multiIf(
                kind != 'remove' AND outcome != 'failed', 1,
                kind = 'remove' AND outcome = 'ok', -1,
                0
            )) OVER (
                PARTITION BY operations.datastore, operations.vm ORDER BY started_at ASC, kind ASC
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS depth,
            -- It removed all: the first removal after such a task (by vCenter's clock), or one with such a stun.
            kind = 'remove' AND outcome = 'ok'
            AND (
                arrayExists(
                    at -> started_at >= at - INTERVAL 1 MINUTE AND started_at < at + INTERVAL 1 HOUR
                    AND removed_before_at < at - INTERVAL 1 MINUTE,
                    asked_at
                )
                OR arrayExists(
                    stun -> stun.2 >= started_at - INTERVAL 5 SECOND
                    AND stun.1 <= assumeNotNull(ended_at) + INTERVAL 5 SECOND,
                    stunned_at
                )
            ) AS is_sweeping
        FROM operations
        LEFT JOIN asked ON operations.datastore = asked.datastore AND operations.vm = asked.vm
        LEFT JOIN stunned ON operations.datastore = stunned.datastore AND operations.vm = stunned.vm
    ),

    still_there AS
    (
        SELECT
            *,
            countIf(kind = 'remove' AND outcome = 'failed') OVER later AS failed_removals,
            countIf(kind = 'remove' AND outcome = 'open') OVER later AS unclear_removals,
            quantileExact(0.5)(grew_bytes_per_second) OVER (PARTITION BY datastore, vm) AS grows
        FROM counted
        WINDOW later AS (
            PARTITION BY datastore, vm ORDER BY started_at ASC, kind ASC
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        )
        QUALIFY
            kind != 'remove' AND outcome = 'ok'
            AND min(depth) OVER later >= depth
            AND countIf(is_sweeping) OVER later = 0
    )

SELECT
    host,
    vm,
    datastore,
    name,
    kind,
    started_at,
    ended_at AS created_at,
    round(dateDiff('second', ended_at, until_at) / 86400, 1) AS age_days,
    count() OVER (PARTITION BY datastore, vm) AS open_at_least,
    failed_removals,
    unclear_removals,
    if(isFinite(grows), grows, NULL) AS grows_bytes_per_second
FROM still_there;
