-- Are VMs with changed-block tracking stunned longer than those without?
-- One row is one cause with tracking on, off or unknown, and quiesced or not. Compare only rows with enough
-- stuns; guests with many writes are stunned longer in any case.
-- on: lines of the stun show it, or the configuration that vmware.log has since the power-on (ctkEnabled of
-- the VM and of a disk). off: that configuration does not enable it, and no stun since then shows it.
-- unknown: no line of the power-on is stored, or lines of it are missing.
-- param days = 30 : days to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last stun
-- param vm = : part of the VM's name
-- param datastore = : part of the datastore's name
WITH
    least({until:DateTime64(6, 'UTC')}, (SELECT max(ended_at) FROM stuns_stored), now64(6, 'UTC')) AS until_at,

    said AS
    (
        SELECT
            toString(datastore) AS on_datastore,
            toString(vm) AS of_vm,
            toDateTime64(event_time, 6, 'UTC') AS said_at,
            startsWith(message, 'DICT --- USER DEFAULTS') AS is_end,
            position(message, '<<< Log Throttled >>>') > 0 AS is_hole,
            extractGroups(
                message, '^DICT +((?:[a-z]{1,9}[0-9]{1,4}:[0-9]{1,4}[.])?)ctkEnabled = "?(?i)(true|false)'
            ) AS setting,
            countIf(startsWith(message, 'DICT --- CONFIGURATION')) OVER (
                PARTITION BY datastore, vm ORDER BY event_time, offset
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS power_on
        FROM log_lines_stored
        WHERE
            source = 'vmware_log'
            AND hasAny(
                tokens(lower(message), 'splitByNonAlpha'), ['ctkenabled', 'configuration', 'defaults', 'throttled']
            )
            AND (startsWith(message, 'DICT ') OR startsWith(message, '<<< Log Throttled >>>'))
            AND positionCaseInsensitive(vm, {vm:String}) > 0
            AND positionCaseInsensitive(datastore, {datastore:String}) > 0
    ),

    configured AS
    (
        SELECT
            on_datastore,
            of_vm,
            min(said_at) AS configured_at,
            minIf(said_at, is_end) AS end_at,
            arrayExists(hole_at -> hole_at <= end_at, groupArrayIf(said_at, is_hole)) AS has_hole,
            countIf(is_end) > 0 AND NOT has_hole AS is_complete,
            argMaxIf(lower(setting[2]), said_at, notEmpty(setting) AND setting[1] = '') AS of_whole_vm,
            countIf(setting[1] != '' AND lower(setting[2]) = 'true') > 0 AS is_on_a_disk,
            multiIf(
                of_whole_vm = 'false', false,
                of_whole_vm = 'true' AND is_on_a_disk, true,
                of_whole_vm = '' AND NOT is_on_a_disk AND is_complete, false,
                null
            ) AS is_configured
        FROM said
        WHERE power_on > 0
        GROUP BY on_datastore, of_vm, power_on
    ),

    told AS
    (
        SELECT
            toString(datastore) AS on_datastore, toString(vm) AS of_vm, started_at, ended_at, duration_us, cause,
            is_cbt, is_quiesced
        FROM stuns_stored FINAL
        PREWHERE ended_at > until_at - toIntervalDay({days:UInt32}) AND ended_at <= until_at
        WHERE
            startsWith(cause, 'snapshot_')
            AND positionCaseInsensitive(vm, {vm:String}) > 0
            AND positionCaseInsensitive(datastore, {datastore:String}) > 0
    ),

    known AS
    (
        SELECT
            told.*,
            is_configured,
            -- Switched on after the power-on.
            max(coalesce(is_cbt, false)) OVER (
                PARTITION BY told.on_datastore, told.of_vm, configured_at ORDER BY ended_at
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS was_on
        FROM told
        ASOF LEFT JOIN configured
            ON told.on_datastore = configured.on_datastore AND told.of_vm = configured.of_vm
            AND told.started_at >= configured.configured_at
    )

SELECT
    cause,
    multiIf(
        is_cbt, 'on',
        isNotNull(is_cbt), 'off',
        is_configured, 'on',
        isNotNull(is_configured) AND NOT was_on, 'off',
        'unknown'
    ) AS cbt,
    multiIf(isNull(is_quiesced), 'unknown', is_quiesced, 'yes', 'no') AS quiesced,
    count() AS stuns,
    uniqExact((on_datastore, of_vm)) AS vms,
    round(quantileExact(0.5)(duration_us) / 1e6, 3) AS p50_s,
    round(quantileExact(0.99)(duration_us) / 1e6, 3) AS p99_s,
    round(max(duration_us) / 1e6, 3) AS worst_s
FROM known
GROUP BY cause, cbt, quiesced
ORDER BY cause ASC, quiesced ASC, worst_s DESC, cbt ASC
SETTINGS do_not_merge_across_partitions_select_final = 1;
