-- Is the backup or the array the cause: stuns, snapshots and DAVG on one timeline?
-- One row is one step of the timeline of one datastore. During an incident on the datastore or its LUNs,
-- points_at is the incident's suspect: array, fabric, array_or_fabric, lun, host or backup. Otherwise: array (high
-- DAVG without snapshots), backup (stuns or high DAVG with snapshots; with many VMs at once, spread them), other
-- stuns. DAVG is that of the LUNs of the datastore, from all hosts; without inventory, of all LUNs. A creation
-- without a logged end counts at its start only.
-- param at = : middle of the timeline, UTC; by default the longest stun of the last 30 days
-- param vm = : part of a VM's name: its longest stun
-- param datastore = : name of the datastore; by default that of the longest stun
-- param hours = 3 : hours before and after
-- param minutes = 5 : minutes per step
-- param slow_ms = 25 : high DAVG, milliseconds
WITH
    (
        SELECT max(ended_at) FROM stuns_stored
    ) AS last_at,

    longest AS
    (
        SELECT ended_at, datastore
        FROM stuns_stored
        WHERE
            ({at:String} != '' OR (ended_at > last_at - toIntervalDay(30)))
            AND ({datastore:String} = '' OR datastore = {datastore:String})
            AND positionCaseInsensitive(vm, {vm:String}) > 0
            AND (
                {at:String} = ''
                OR abs(dateDiff('second', ended_at, parseDateTime64BestEffortOrNull({at:String}, 6, 'UTC')))
                <= {hours:UInt32} * 3600
            )
        ORDER BY duration_us DESC, ended_at ASC
        LIMIT 1
    ),

    coalesce(parseDateTime64BestEffortOrNull({at:String}, 6, 'UTC'), (SELECT max(ended_at) FROM longest)) AS middle_at,
    middle_at - toIntervalHour({hours:UInt32}) AS from_at,
    middle_at + toIntervalHour({hours:UInt32}) AS until_at,
    if({datastore:String} = '', (SELECT max(toString(datastore)) FROM longest), {datastore:String}) AS volume,

    (
        SELECT (groupUniqArray(datastore), groupUniqArray(datastore_uuid), groupUniqArray(device))
        FROM host_extents
        WHERE volume IN (datastore, datastore_uuid)
    ) AS known,

    arrayConcat([volume], known.1, known.2) AS names,

    operations AS
    (
        SELECT
            vm, kind, started_at,
            greatest(started_at, from_at) AS first_at,
            coalesce(ended_at, if(kind = 'remove', until_at, started_at)) AS over_at,
            least(over_at, until_at) AS last_at_step
        FROM snapshot_operations_stored FINAL
        PREWHERE started_at > from_at - toIntervalDay(1) AND started_at < until_at
        WHERE datastore IN names AND over_at >= from_at
    ),

    -- The incidents of the datastore, those of the widest storage first. The suspect of a VM's incident is no storage.
    judged AS
    (
        SELECT
            toString(incident_id) AS id, suspect,
            indexOf(['backup', 'lun', 'host', 'array_or_fabric', 'fabric', 'array'], suspect) AS width,
            greatest(opened_at, from_at) AS first_at,
            least(coalesce(closed_at, until_at), until_at) AS last_at_step
        FROM incidents
        WHERE
            opened_at < until_at AND coalesce(closed_at, until_at) >= from_at AND width > 0
            AND (hasAny(datastores, names) OR hasAny(devices, arrayMap(device -> toString(device), known.3)))
    ),

    facts AS
    (
        SELECT
            toStartOfInterval(ended_at, toIntervalMinute({minutes:UInt32})) AS step,
            'stun' AS fact, toString(vm) AS who, duration_us / 1e6 AS value
        FROM stuns_stored FINAL
        PREWHERE ended_at >= from_at AND ended_at < until_at
        WHERE datastore IN names
        UNION ALL
        SELECT
            toStartOfInterval(
                arrayJoin(arrayPushBack(
                    arrayMap(
                        minute -> first_at + toIntervalMinute(minute),
                        range(0, toUInt64(dateDiff('minute', first_at, last_at_step)), {minutes:UInt32})
                    ),
                    last_at_step
                )),
                toIntervalMinute({minutes:UInt32})
            ) AS step,
            if(kind = 'remove', 'removal', 'creation') AS fact, toString(vm) AS who, 0 AS value
        FROM operations
        UNION ALL
        SELECT
            arrayJoin(arrayMap(
                number -> toStartOfInterval(first_at, toIntervalMinute({minutes:UInt32}))
                + toIntervalMinute(number * {minutes:UInt32}),
                range(toUInt64(1 + intDiv(
                    dateDiff('second', toStartOfInterval(first_at, toIntervalMinute({minutes:UInt32})), last_at_step),
                    60 * {minutes:UInt32}
                )))
            )) AS step,
            'incident' AS fact, concat(suspect, ' ', id) AS who, toFloat64(width) AS value
        FROM judged
        UNION ALL
        SELECT
            toStartOfInterval(window_start, toIntervalMinute({minutes:UInt32})) AS step,
            'latency' AS fact, toString(device) AS who, assumeNotNull(avg_davg_ms) AS value
        FROM latency_windows_stored FINAL
        PREWHERE window_start >= from_at AND window_start < until_at
        WHERE
            object_class IN ('scsi_device', 'disk') AND isNotNull(avg_davg_ms)
            AND (empty(known.3) OR has(known.3, toString(device)))
    ),

    splitByChar(' ', argMaxIf(who, value, fact = 'incident')) AS judgement

SELECT
    toDateTime(step, 'UTC') AS from_utc,
    volume AS datastore,
    countIf(fact = 'stun') AS stuns,
    round(maxIf(value, fact = 'stun'), 3) AS worst_stun_s,
    uniqExactIf(who, fact = 'creation') AS vms_creating,
    uniqExactIf(who, fact = 'removal') AS vms_removing,
    if(countIf(fact = 'latency') = 0, NULL, round(avgIf(value, fact = 'latency'), 1)) AS mean_davg_ms,
    if(countIf(fact = 'latency') = 0, NULL, round(maxIf(value, fact = 'latency'), 1)) AS slowest_minute_davg_ms,
    argMaxIf(who, value, fact = 'latency') AS slowest_lun,
    multiIf(
        coalesce(mean_davg_ms, 0) < {slow_ms:Float64} AND stuns = 0, '',
        judgement[1] != '', judgement[1],
        coalesce(mean_davg_ms, 0) >= {slow_ms:Float64}, if(vms_creating + vms_removing = 0, 'array', 'backup'),
        if(vms_creating + vms_removing = 0, 'other stuns', 'backup')
    ) AS points_at,
    judgement[2] AS incident_id
FROM facts
WHERE isNotNull(middle_at)
GROUP BY step
HAVING countIf(fact != 'incident') > 0
ORDER BY step ASC
SETTINGS do_not_merge_across_partitions_select_final = 1;
