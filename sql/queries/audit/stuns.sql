-- Do the stuns that Flink found equal those in the lines? For the stuns that ended in [first_at, end_at).
-- One row is one finding (same, missing, extra, different, expired): the number of stuns, and the first thousand of
-- them with the values of both sides.
--
-- This query computes with sets of lines what flink-jobs/detectors/stuns computes line by line. The two share only
-- the thresholds of detector.yaml. A copy of a line changes no set, so FINAL is not needed.
-- (RF02: the linter takes parameters and arguments of lambdas for columns.)
-- noqa: disable=RF02
WITH
    -- == Stuns from Checkpoint_Unstun and from ESXi 8's second line.

    said AS
    (
        SELECT
            datastore,
            vm,
            if(datastore = '' AND vm = '', generation, '') AS unnamed,
            if(startsWith(message, 'Checkpoint_Unstun'), 'unstun', 'reported') AS kind,
            toUnixTimestamp64Micro(event_time) AS at_us,
            toInt64OrZero(extract(message, ' for ([0-9]{1,15}) us')) AS told_us,
            -- Identifies a line without a time.
            if(
                time_quality != 'arrival' AND match(head, '[0-9]:[0-9][0-9]'),
                '',
                concat(generation, ' ', if(generation = '', '', toString(offset)), ' ', head, message)
            ) AS place,
            -- Two stuns of a VM never end in the same millisecond.
            if(place = '', intDiv(at_us, 1000), at_us) AS instant,
            (at_us, if(generation = '', -1, toInt64(offset)), concat(head, message)) AS written,
            host
        FROM log_lines_stored
        WHERE
            source = 'vmware_log'
            AND event_time >= {first_at:DateTime64(6, 'UTC')} - toIntervalHour(2)
            AND event_time < {end_at:DateTime64(6, 'UTC')} + toIntervalHour(2)
            AND cityHash64(datastore, vm) % {buckets:UInt32} = {bucket:UInt32}
            AND (
                hasAll(tokens(lower(message), 'splitByNonAlpha'), ['checkpoint', 'unstun', 'stopped'])
                OR hasAll(tokens(lower(message), 'splitByNonAlpha'), ['cpt', 'stunned'])
            )
            AND match(message, '^(Checkpoint_Unstun: vm stopped|CPT: vm was stunned) for [0-9]{1,15} us\\s*$')
            AND NOT match(head, '(\\b[A-Z][0-9]{3}|\\b[A-Z][a-z]\\([0-9]{1,3}\\))\\[?\\+')
            AND told_us BETWEEN 1 AND {longest_stun_days:Int64} * 86400000000
            AND at_us - told_us >= toUnixTimestamp64Micro(toDateTime64('1999-01-01', 6, 'UTC'))
    ),

    numbers AS
    (
        SELECT
            datastore, vm, unnamed, kind, place, instant, told_us,
            min(said.written) AS written,
            written.1 AS at_us,
            at_us - told_us AS started_us,
            max((length(said.host), said.host)).2 AS host
        FROM said
        GROUP BY datastore, vm, unnamed, kind, place, instant, told_us
    ),

    -- The same duration again after a short time is a copy of the line, received as a file and by syslog.
    repeated AS
    (
        SELECT
            *,
            at_us - lagInFrame(at_us) OVER (
                PARTITION BY datastore, vm, unnamed, kind, told_us ORDER BY at_us, place
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
            ) <= {copy_within_ms:Int64} * 1000 AS is_copy
        FROM numbers
    ),

    -- If no line of an instant is a copy, the instant is the end of a stun, according to lines of this kind.
    ended AS
    (
        SELECT
            *,
            max(is_copy) OVER (PARTITION BY datastore, vm, unnamed, kind, place, instant) AS is_later,
            min((written, told_us)) OVER (PARTITION BY datastore, vm, unnamed, kind, place, instant) AS earliest
        FROM repeated
    ),

    gathered AS
    (
        SELECT
            *,
            max(if(is_later, NULL, earliest)) OVER (
                PARTITION BY datastore, vm, unnamed, kind, told_us ORDER BY at_us, place
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS last_end
        FROM ended
    ),

    joined AS
    (
        SELECT
            *,
            if(
                is_later,
                max(if(is_copy, last_end, NULL)) OVER (PARTITION BY datastore, vm, unnamed, kind, place, instant),
                earliest
            ) AS stun_end,
            (kind, at_us, started_us, told_us, host) AS teller
        FROM gathered
    ),

    -- Lines of both kinds with the same start report one stun. A relay can truncate both timestamps to seconds. Then
    -- the durations show it, and the second can change between the lines.
    paired AS
    (
        SELECT
            *,
            groupArray(teller) OVER (
                PARTITION BY datastore, vm, unnamed ORDER BY started_us
                RANGE BETWEEN {same_start_within_ms:Int64} * 1000 + 1000000 PRECEDING
                AND {same_start_within_ms:Int64} * 1000 + 1000000 FOLLOWING
            ) AS near_start,
            groupArray(teller) OVER (PARTITION BY datastore, vm, unnamed, place = '', instant) AS same_instant,
            arrayFilter(
                other -> other.1 != kind,
                arrayConcat(
                    arrayFilter(
                        other -> if(
                            at_us % 1000000 = 0 AND other.2 % 1000000 = 0,
                            abs(other.2 - at_us) <= 1000000
                            AND abs(other.4 - told_us) <= {same_start_within_ms:Int64} * 1000,
                            abs(other.2 - at_us) <= {end_line_within_ms:Int64} * 1000
                            AND abs(other.3 - started_us) <= {same_start_within_ms:Int64} * 1000
                        ),
                        near_start
                    ),
                    if(place = '', same_instant, [])
                )
            ) AS twins
        FROM joined
    ),

    by_end_lines AS
    (
        SELECT
            datastore,
            vm,
            paired.stun_end.1.1 AS ended_us,
            place != '' AS is_timeless,
            max(told_us) AS duration_us,
            arrayDistinct(groupArrayArray(twins)) AS others,
            if(
                kind = 'unstun',
                arraySort(twin -> abs(twin.3 - (paired.stun_end.1.1 - paired.stun_end.2)), others)[1].4,
                paired.stun_end.2
            ) AS reported_us,
            'unstun' AS measured_by,
            paired.stun_end.1.3 AS first_line,
            arrayMax(arrayConcat(
                groupArray((length(host), host)), arrayMap(twin -> (length(twin.5), twin.5), others)
            )).2 AS fullest_host,
            FALSE AS is_optional
        FROM paired
        GROUP BY datastore, vm, unnamed, kind, place, paired.stun_end
        HAVING kind = 'unstun' OR empty(others)
    ),

    -- == Stuns from changes of the checkpoint mode, if no line above reports them.

    modes AS
    (
        SELECT
            datastore,
            vm,
            if(datastore = '' AND vm = '', generation, '') AS unnamed,
            toUnixTimestamp64Micro(event_time) AS at_us,
            if(generation = '', -1, toInt64(offset)) AS place,
            -- A request for mode 1 starts a checkpoint, the first line of a log a process: the VM was running.
            if(
                startsWith(message, 'Log for VMware '),
                1,
                toInt32(extract(message, '(?:requesting |mode |monModules\\()([0-9]{1,2})'))
            ) AS mode,
            mode IN (2, 3) AS is_stopped,
            concat(head, message) AS line,
            host,
            run_id
        FROM log_lines_stored
        WHERE
            source = 'vmware_log'
            AND event_time >= {first_at:DateTime64(6, 'UTC')} - toIntervalHour(2)
            AND event_time < {end_at:DateTime64(6, 'UTC')} + toIntervalHour(2)
            AND cityHash64(datastore, vm) % {buckets:UInt32} = {bucket:UInt32}
            AND (
                hasAny(tokens(lower(message), 'splitByNonAlpha'), ['cpt', 'monmodules'])
                OR hasAll(tokens(lower(message), 'splitByNonAlpha'), ['log', 'for', 'vmware'])
            )
            AND match(
                message,
                '^(Log for VMware |CPT current = [0-9]{1,2}, requesting [01236]\\s*$'
                || '|CPT: monitor ACKing mode [0236]\\s*$|Done (Sync|Cpt) monModules\\([0236]\\)\\.\\s*$)'
            )
            AND NOT match(head, '(\\b[A-Z][0-9]{3}|\\b[A-Z][a-z]\\([0-9]{1,3}\\))\\[?\\+')
            AND time_quality != 'arrival'
            AND match(head, '[0-9]:[0-9][0-9]')
    ),

    -- A stop is a series of lines with a stopped mode, and the line after them. Lines that are further apart than the
    -- tracker keeps lines are independent.
    numbered AS
    (
        SELECT
            *,
            countIf(NOT is_stopped OR is_anew) OVER (
                PARTITION BY datastore, vm, unnamed ORDER BY at_us, place, mode, line
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) - (NOT is_stopped) AS stop
        FROM
        (
            SELECT
                *,
                at_us - lagInFrame(at_us) OVER (
                    PARTITION BY datastore, vm, unnamed ORDER BY at_us, place, mode, line
                    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
                ) > {keep_hours:Int64} * 3600000000 AS is_anew
            FROM modes
        ) AS spaced
    ),

    stops AS
    (
        SELECT
            datastore,
            vm,
            unnamed,
            minIf(at_us, mode = 2) AS started_us,
            minIf(at_us, NOT is_stopped) AS ended_us,
            ended_us - started_us AS duration_us,
            min((at_us, place, mode, line)).4 AS first_line,
            max((length(host), host)).2 AS fullest_host,
            maxIf(run_id, NOT is_stopped) AS run,
            run = 'live' AS is_live
        FROM numbered
        GROUP BY datastore, vm, unnamed, stop
        HAVING
            countIf(mode = 2) > 0
            AND countIf(mode IN (6, 0)) > 0
            AND duration_us BETWEEN 1000 AND {longest_mode_stun_minutes:Int64} * 60000000
            AND started_us >= toUnixTimestamp64Micro(toDateTime64('1999-01-01', 6, 'UTC'))
    ),

    -- The last time that a replay read from a VM's files: a stop counts when no other line followed for a while. Live,
    -- a timer detects this. A stop that only another replay settles is optional.
    told AS
    (
        SELECT
            if(
                source = 'vmware_log',
                (datastore, vm, if(datastore = '' AND vm = '', generation, '')),
                ('', '', '')
            ) AS owner,
            run_id,
            toUnixTimestamp64Micro(max(max(event_time)) OVER (
                PARTITION BY generation, run_id, if(generation = '', owner, ('', '', ''))
            )) AS told_us
        FROM log_lines_stored
        WHERE
            event_time >= {first_at:DateTime64(6, 'UTC')} - toIntervalHour(2)
            AND event_time < {end_at:DateTime64(6, 'UTC')} + toIntervalHour(2)
            AND time_quality != 'arrival'
        GROUP BY owner, run_id, generation
    ),

    settled AS
    (
        SELECT
            stops.*,
            NOT stops.is_live
            AND maxIf(told.told_us, told.run_id = stops.run) < stops.ended_us + {mode_settles_after_ms:Int64} * 1000
                AS is_optional
        FROM stops
        INNER JOIN told ON (stops.datastore, stops.vm, stops.unnamed) = told.owner
        GROUP BY ALL
        HAVING stops.is_live OR max(told.told_us) >= stops.ended_us + {mode_settles_after_ms:Int64} * 1000
    ),

    -- A line with the duration of the stun replaces the stop: if it is within the stop, or soon after it with a start
    -- before the stop's end.
    both AS
    (
        SELECT
            datastore, vm, unnamed, ended_us AS at_us, 0 AS line_at_us, 0 AS line_started_us,
            TRUE AS is_stop, is_optional, started_us, duration_us, first_line, fullest_host
        FROM settled
        UNION ALL
        SELECT
            datastore, vm, unnamed, numbers.at_us AS at_us, numbers.at_us AS line_at_us,
            numbers.started_us AS line_started_us, FALSE AS is_stop, FALSE AS is_optional,
            0 AS started_us, 0 AS duration_us, '' AS first_line, '' AS fullest_host
        FROM numbers
    ),

    compared AS
    (
        SELECT
            *,
            max(line_at_us) OVER (
                PARTITION BY datastore, vm, unnamed ORDER BY intDiv(at_us, 1000)
                RANGE BETWEEN {longest_mode_stun_minutes:Int64} * 60000 PRECEDING AND CURRENT ROW
            ) AS line_before_us,
            min(if(is_stop, NULL, line_started_us)) OVER (
                PARTITION BY datastore, vm, unnamed ORDER BY intDiv(at_us, 1000)
                RANGE BETWEEN CURRENT ROW AND {end_line_within_ms:Int64} FOLLOWING
            ) AS started_after_us
        FROM both
    ),

    by_modes AS
    (
        SELECT
            datastore,
            vm,
            at_us AS ended_us,
            FALSE AS is_timeless,
            duration_us,
            0 AS reported_us,
            'cpt_mode' AS measured_by,
            first_line,
            fullest_host,
            is_optional
        FROM compared
        WHERE is_stop AND line_before_us < started_us AND NOT coalesce(started_after_us <= ended_us, FALSE)
    ),

    -- == The comparison of the lines with the view.

    recomputed AS
    (
        SELECT
            datastore,
            vm,
            if(is_timeless, first_line, '') AS timeless,
            if(is_timeless, 0, intDiv(ended_us, 1000)) AS ended_ms,
            is_optional,
            CAST(map(
                'ended_at', if(is_timeless, '', toString(fromUnixTimestamp64Micro(ended_us, 'UTC'))),
                'started_at', if(is_timeless, '', toString(fromUnixTimestamp64Micro(ended_us - duration_us, 'UTC'))),
                'duration_us', toString(duration_us),
                'reported_us', if(reported_us = 0, '', toString(reported_us)),
                'measured_by', measured_by,
                'severity',
                multiIf(
                    duration_us > {critical_above_ms:Int64} * 1000, 'critical',
                    duration_us > {warning_above_ms:Int64} * 1000, 'warning',
                    duration_us > {notice_above_ms:Int64} * 1000, 'notice',
                    'normal'
                ),
                'host', lower(splitByChar('.', fullest_host)[1])
            ), 'Map(String, String)') AS said
        FROM
        (
            SELECT
                datastore, vm, ended_us, is_timeless, duration_us, reported_us, measured_by,
                first_line, fullest_host, is_optional
            FROM by_end_lines
            UNION ALL
            SELECT
                datastore, vm, ended_us, is_timeless, duration_us, reported_us, measured_by,
                first_line, fullest_host, is_optional
            FROM by_modes
        ) AS all_stuns
        WHERE
            ended_us >= toUnixTimestamp64Micro({first_at:DateTime64(6, 'UTC')})
            AND ended_us < toUnixTimestamp64Micro({end_at:DateTime64(6, 'UTC')})
    ),

    shown AS
    (
        SELECT
            datastore,
            vm,
            'Checkpoint_Unstun: vm stopped for|CPT: vm was stunned for' AS end_pattern,
            arrayFirst(each -> match(each, end_pattern), evidence) AS end_line,
            end_line != '' AND NOT match(splitByRegexp(end_pattern, end_line)[1], '[0-9]:[0-9][0-9]') AS is_timeless,
            if(is_timeless, end_line, '') AS timeless,
            if(is_timeless, 0, intDiv(toUnixTimestamp64Micro(ended_at), 1000)) AS ended_ms,
            CAST(map(
                'ended_at', if(is_timeless, '', toString(ended_at)),
                'started_at', if(is_timeless, '', toString(started_at)),
                'duration_us', toString(duration_us),
                'reported_us', coalesce(toString(reported_us), ''),
                'measured_by', measured_by,
                'severity', severity,
                'host', lower(splitByChar('.', toString(host))[1])
            ), 'Map(String, String)') AS said,
            detected_at < {kept_since:DateTime64(6, 'UTC')} AS is_old
        FROM stuns
        WHERE
            ended_at >= {first_at:DateTime64(6, 'UTC')}
            AND ended_at < {end_at:DateTime64(6, 'UTC')}
            AND cityHash64(datastore, vm) % {buckets:UInt32} = {bucket:UInt32}
            -- Stuns of vMotions that only hostd reports are in no vmware.log.
            AND measured_by != 'hostd'
    ),

    matched AS
    (
        SELECT
            concat(datastore, '/', vm) AS owner,
            if(ended_ms = 0, timeless, toString(fromUnixTimestamp64Milli(ended_ms, 'UTC'))) AS anchor,
            arraySort(each -> toString(each), groupArrayIf(said, side = 1)) AS recomputed_rows,
            -- The name of the host can come from a host's log, if the VM's log does not contain it.
            notEmpty(recomputed_rows) AND recomputed_rows[1]['host'] = '' AS is_hostless,
            arraySort(
                each -> toString(each),
                arrayMap(
                    each -> mapApply((name, value) -> (name, if(name = 'host' AND is_hostless, '', value)), each),
                    groupArrayIf(said, side = 2)
                )
            ) AS stored_rows,
            multiIf(
                recomputed_rows = stored_rows, 'same',
                empty(stored_rows), if(max(is_optional), 'same', 'missing'),
                -- Its lines have expired.
                max(is_old), 'expired',
                empty(recomputed_rows), 'extra',
                'different'
            ) AS finding
        FROM
        (
            SELECT datastore, vm, timeless, ended_ms, said, 1 AS side, FALSE AS is_old, is_optional
            FROM recomputed
            UNION ALL
            SELECT datastore, vm, timeless, ended_ms, said, 2 AS side, is_old, FALSE AS is_optional
            FROM shown
        ) AS sides
        GROUP BY datastore, vm, timeless, ended_ms
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
