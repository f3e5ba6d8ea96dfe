-- Do the stuns of vMotions that Flink found only in hosts' lines equal those in the lines? For lines with a time in
-- [first_at, end_at). One row is one finding; see stuns.sql.
--
-- hostd on the source host logs a duration and the migration. This is a stun, unless a VM's log reports one of the
-- same migration. The view shows which stuns have a VM log: the cause of a stun, and with it the migration, is not
-- recomputed, nor is the name of the VM.
-- (RF02: the linter takes parameters and arguments of lambdas for columns.)
-- noqa: disable=RF02
WITH
    -- … [6A623B90 verbose 'VMotionSrc (1418322799436303)'] Set source task result precopyStunTime to 71204
    -- … [Originator@6876 sub=Vcsvc.VMotionSrc.8311186098575749154] Set source task result precopyStunTime to 264318
    lines AS
    (
        SELECT
            extractGroups(
                message,
                '^(?:\\[VMotionSrc \\(([0-9]{1,19})\\)\\] )?'
                || 'Set source task result precopyStunTime to ([0-9]{1,15})\\s*$'
            ) AS found,
            trim(LEADING '0' FROM if(
                found[1] = '',
                extract(head, '(?:\'VMotionSrc \\(|sub=(?:\\w+\\.)*VMotionSrc(?:\\.| \\())([0-9]{1,19})\\b'),
                found[1]
            )) AS migration,
            toInt64OrZero(found[2]) AS duration_us,
            toUnixTimestamp64Micro(event_time) AS ended_us,
            (ended_us, if(generation = '', -1, toInt64(offset)), concat(head, message)) AS written,
            lower(splitByChar('.', toString(host))[1]) AS host_label,
            run_id
        FROM log_lines_stored
        WHERE
            source = 'syslog'
            AND event_time >= {first_at:DateTime64(6, 'UTC')} - toIntervalHour({keep_hours:Int64})
            AND event_time < {end_at:DateTime64(6, 'UTC')} + toIntervalHour({keep_hours:Int64})
            AND hasAll(tokens(lower(message), 'splitByNonAlpha'), ['precopystuntime'])
            AND notEmpty(found)
            AND migration != ''
            AND duration_us BETWEEN 1 AND {longest_stun_days:Int64} * 86400000000
            AND NOT match(head, '(\\b[A-Z][0-9]{3}|\\b[A-Z][a-z]\\([0-9]{1,3}\\))\\[?\\+')
            AND time_quality != 'arrival'
            AND match(head, '[0-9]:[0-9][0-9]')
            AND cityHash64(migration) % {buckets:UInt32} = {bucket:UInt32}
    ),

    -- The earliest line counts. The lines of one run can be all that Flink had read at that time.
    by_run AS
    (
        SELECT migration, argMin((ended_us, duration_us, host_label), written) AS earliest, min(written) AS first_line
        FROM lines
        GROUP BY migration, run_id
    ),

    recomputed AS
    (
        SELECT
            migration,
            argMin(earliest, first_line) AS telling,
            arrayMap(
                told -> CAST(map(
                    'ended_at', toString(fromUnixTimestamp64Micro(told.1, 'UTC')),
                    'started_at', toString(fromUnixTimestamp64Micro(told.1 - told.2, 'UTC')),
                    'duration_us', toString(told.2),
                    'severity',
                    multiIf(
                        told.2 > {critical_above_ms:Int64} * 1000, 'critical',
                        told.2 > {warning_above_ms:Int64} * 1000, 'warning',
                        told.2 > {notice_above_ms:Int64} * 1000, 'notice',
                        'normal'
                    ),
                    'host', told.3
                ), 'Map(String, String)'),
                arrayDistinct(arrayConcat([telling], groupArray(earliest)))
            ) AS tellings
        FROM by_run
        GROUP BY migration
        HAVING
            telling.1 >= toUnixTimestamp64Micro({first_at:DateTime64(6, 'UTC')})
            AND telling.1 < toUnixTimestamp64Micro({end_at:DateTime64(6, 'UTC')})
    ),

    shown AS
    (
        SELECT
            trim(LEADING '0' FROM assumeNotNull(migration_id)) AS migration,
            measured_by = 'hostd' AS is_by_host,
            CAST(map(
                'ended_at', toString(ended_at),
                'started_at', toString(started_at),
                'duration_us', toString(duration_us),
                'severity', severity,
                'host', lower(splitByChar('.', toString(host))[1])
            ), 'Map(String, String)') AS said,
            ended_at >= {first_at:DateTime64(6, 'UTC')} AND ended_at < {end_at:DateTime64(6, 'UTC')} AS is_in_span,
            ended_at,
            detected_at < {kept_since:DateTime64(6, 'UTC')} AS is_old
        FROM stuns
        WHERE
            isNotNull(migration_id)
            AND ended_at >= {first_at:DateTime64(6, 'UTC')} - toIntervalHour({keep_hours:Int64})
            AND ended_at < {end_at:DateTime64(6, 'UTC')} + toIntervalHour({keep_hours:Int64})
            AND cityHash64(migration) % {buckets:UInt32} = {bucket:UInt32}
    ),

    matched AS
    (
        SELECT
            concat('migration ', migration) AS owner,
            toString(if(
                empty(groupArrayArray(tellings)),
                minIf(ended_at, side = 2 AND is_by_host),
                fromUnixTimestamp64Micro(max(telling_us), 'UTC')
            )) AS anchor,
            groupArrayArray(tellings) AS may_be,
            -- If a VM's log reports the stun, there is no row from the host.
            countIf(side = 2 AND NOT is_by_host) > 0 AS is_told_by_vm,
            if(is_told_by_vm, [], arraySlice(may_be, 1, 1)) AS recomputed_rows,
            arraySort(each -> toString(each), groupArrayIf(said, side = 2 AND is_by_host)) AS stored_rows,
            multiIf(
                is_told_by_vm AND empty(stored_rows), 'same',
                NOT is_told_by_vm AND length(stored_rows) = 1 AND has(may_be, stored_rows[1]), 'same',
                empty(stored_rows), 'missing',
                max(is_old), 'expired',
                empty(may_be) OR is_told_by_vm, 'extra',
                'different'
            ) AS finding
        FROM
        (
            SELECT
                migration, 1 AS side, tellings, telling.1 AS telling_us, FALSE AS is_by_host, TRUE AS is_in_span,
                CAST(map(), 'Map(String, String)') AS said, toDateTime64(0, 6, 'UTC') AS ended_at, FALSE AS is_old
            FROM recomputed
            UNION ALL
            SELECT
                migration, 2 AS side, [] AS tellings, 0 AS telling_us, is_by_host, is_in_span,
                said, ended_at, is_old
            FROM shown
        ) AS sides
        GROUP BY migration
        -- Only migrations with a line or a host's row in the time range.
        HAVING countIf(side = 1) > 0 OR countIf(side = 2 AND is_by_host AND is_in_span) > 0
    )

SELECT
    finding,
    count() AS events,
    arraySort(groupArrayIf(1000)(
        (owner, anchor, recomputed_rows, stored_rows), finding NOT IN ('same', 'expired')
    )) AS examples
FROM matched
GROUP BY finding
ORDER BY finding ASC;
