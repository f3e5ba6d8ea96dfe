-- Which snapshot names come with which stuns, and thus which backup job?
-- A stun of a snapshot belongs to the snapshot that its VM got last. Digits in names are shown as #, so that
-- the snapshots of one job are one row. usual_hour is in the site's time zone.
-- param days = 7 : days to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last stun
-- param vm = : part of the VM's name
-- param name = : part of the snapshot's name
-- param most = 20 : number of rows
WITH
    least({until:DateTime64(6, 'UTC')}, (SELECT max(ended_at) FROM stuns_stored), now64(6, 'UTC')) AS until_at,
    until_at - toIntervalDay({days:UInt32}) AS from_at,

    created AS
    (
        SELECT
            datastore, vm, name, started_at,
            replaceRegexpAll(name, '[0-9]{1,19}', '#') AS job
        FROM snapshot_operations_stored FINAL
        -- A snapshot may be older than its removal, which stuns too.
        PREWHERE started_at > from_at - toIntervalDay(2) AND started_at <= until_at
        WHERE kind != 'remove' AND positionCaseInsensitive(vm, {vm:String}) > 0
    ),

    stunned AS
    (
        SELECT datastore, vm, ended_at, cause, duration_us
        FROM stuns_stored FINAL
        PREWHERE ended_at > from_at AND ended_at <= until_at
        WHERE startsWith(cause, 'snapshot_') AND positionCaseInsensitive(vm, {vm:String}) > 0
    )

SELECT
    job,
    any(name) AS for_example,
    count() AS stuns,
    countIf(cause = 'snapshot_remove') AS stuns_by_removal,
    uniqExact(vm) AS vms,
    uniqExact(datastore) AS datastores,
    round(quantileExact(0.5)(duration_us) / 1e6, 3) AS p50_s,
    round(max(duration_us) / 1e6, 3) AS worst_s,
    argMax(vm, duration_us) AS worst_vm,
    round(sum(duration_us) / 1e6, 3) AS stood_still_s,
    topK(1)(toHour(ended_at))[1] AS usual_hour_utc,
    topK(1)(toHour(ended_at, (SELECT timezone FROM site)))[1] AS usual_hour
FROM stunned
ASOF JOIN created
    ON
        stunned.datastore = created.datastore AND stunned.vm = created.vm
        AND stunned.ended_at >= created.started_at
WHERE positionCaseInsensitive(name, {name:String}) > 0
GROUP BY job
ORDER BY stood_still_s DESC, job ASC
LIMIT {most:UInt32}
SETTINGS do_not_merge_across_partitions_select_final = 1;
