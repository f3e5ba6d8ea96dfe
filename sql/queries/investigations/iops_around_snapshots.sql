-- What did a snapshot cost its VM: IOPS before, during and after it?
-- From samples of virtual disks, of esxtop or vCenter, summed over the disks of the VM. percent_during: IOPS
-- during the operation in percent of those before. An operation shorter than the sample interval has no value.
-- param vm = : part of the VM's name
-- param days = 7 : days to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last sample of a disk
-- param minutes = 15 : minutes before and after
-- param most = 20 : number of snapshot operations, the longest first
WITH
    least(
        {until:DateTime64(6, 'UTC')},
        (
            SELECT max(sampled_at)
            FROM latency_samples_stored
            WHERE object_class = 'virtual_disk'
        ),
        now64(6, 'UTC')
    ) AS until_at,
    toIntervalMinute({minutes:UInt32}) AS margin,

    -- A constant: it is worked out once.
    (
        SELECT groupArray((event_id, vm, datastore, kind, name, started_at, over_at, outcome))
        FROM
        (
            SELECT
                event_id, toString(vm) AS vm, datastore, kind, name, started_at, outcome,
                coalesce(ended_at, until_at) AS over_at
            FROM snapshot_operations_stored FINAL
            PREWHERE started_at > until_at - toIntervalDay({days:UInt32}) AND started_at <= until_at
            WHERE positionCaseInsensitive(vm, {vm:String}) > 0
            ORDER BY dateDiff('millisecond', started_at, over_at) DESC, started_at ASC
            LIMIT {most:UInt32}
            SETTINGS do_not_merge_across_partitions_select_final = 1
        ) AS longest
    ) AS chosen,

    operations AS
    (
        SELECT
            each.1 AS event_id, each.2 AS vm, each.3 AS datastore, each.4 AS kind, each.5 AS name,
            each.6 AS started_at, each.7 AS over_at, each.8 AS outcome
        FROM (SELECT arrayJoin(chosen) AS each) AS one
    ),

    -- The disks first, vm01:scsi0:0: what is read after that is little.
    disks AS
    (
        SELECT DISTINCT host, device
        FROM latency_samples_stored
        WHERE
            object_class = 'virtual_disk'
            AND substring(device, 1, position(device, ':') - 1) IN (
                SELECT substring(vm, 1, position(concat(vm, ':'), ':') - 1) FROM operations
            )
    ),

    samples AS
    (
        SELECT
            extract(device, '^(.*):[a-z]+[0-9]{1,19}:[0-9]{1,19}$') AS on_vm,
            sampled_at,
            sum(reads_per_second) AS reads,
            sum(writes_per_second) AS writes
        FROM latency_samples_stored FINAL
        PREWHERE
            object_class = 'virtual_disk'
            AND (host, device) IN (SELECT host, device FROM disks)
            AND sampled_at >= (SELECT min(started_at) FROM operations) - margin
            AND sampled_at <= (SELECT max(over_at) FROM operations) + margin
        GROUP BY on_vm, sampled_at, origin
    )

SELECT
    vm,
    datastore,
    kind,
    name,
    operations.started_at AS started_at,
    round(dateDiff('millisecond', operations.started_at, over_at) / 1000, 1) AS duration_s,
    outcome,
    round(avgIf(reads, sampled_at < operations.started_at), 1) AS reads_before_per_second,
    round(avgIf(reads, sampled_at >= operations.started_at AND sampled_at <= over_at), 1) AS reads_during_per_second,
    round(avgIf(reads, sampled_at > over_at), 1) AS reads_after_per_second,
    round(avgIf(writes, sampled_at < operations.started_at), 1) AS writes_before_per_second,
    round(avgIf(writes, sampled_at >= operations.started_at AND sampled_at <= over_at), 1) AS writes_during_per_second,
    round(avgIf(writes, sampled_at > over_at), 1) AS writes_after_per_second,
    round(
        100 * (reads_during_per_second + writes_during_per_second)
        / (reads_before_per_second + writes_before_per_second), 1
    ) AS percent_during,
    countIf(sampled_at >= operations.started_at AND sampled_at <= over_at) AS samples_during
FROM operations
INNER JOIN samples ON operations.vm = samples.on_vm
WHERE sampled_at >= operations.started_at - margin AND sampled_at <= over_at + margin
GROUP BY event_id, vm, datastore, kind, name, started_at, over_at, outcome
ORDER BY percent_during ASC NULLS LAST, started_at ASC, vm ASC;
