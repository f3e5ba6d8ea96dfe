-- Do the count-downs of retries that Flink found equal those in the lines? For those that began in
-- [first_at, end_at). One row is one finding; see stuns.sql.
--
-- This query computes with sets of lines what flink-jobs/detectors/sync_cr_countdowns computes line by line. The two
-- share only the thresholds of detector.yaml. (RF02: the linter takes parameters and arguments of lambdas for columns.)
-- noqa: disable=RF02
WITH
    -- SCSI: vm 1051: 117: Sync CR at 48
    -- ScsiCore: 1181: Sync CR (opcode 2a) at 960 (wid 4305)
    '(?:SCSI: vm ([0-9]{1,10}): [0-9]{1,19}: Sync CR at ([0-9]{1,19})'
    || '|ScsiCore: [0-9]{1,19}: Sync CR \\(opcode (?:0x)?([0-9a-fA-F]{1,2})\\) at ([0-9]{1,19})'
    || ' \\(wid ([0-9]{1,10})\\))'
        AS step_pattern,

    -- WARNING: SCSI: 127: Failing I/O due to too many reservation conflicts
    -- WARNING: SCSI: 5640: status SCSI reservation conflict, rstatus 0xc0de01 for vmhba2:1:14. residual R 9, CR 0, ER 3
    'WARNING: \\w+: [0-9]{1,19}: (?:Failing I/O due to too many reservation conflicts'
    || '|status SCSI reservation conflict, rstatus 0x[0-9a-fA-F]{1,16} for vmhba[0-9A-Z:]*[0-9]'
    || '(?:\\. residual R [0-9]{1,19}, CR ([0-9]{1,9})(?:[^0-9]|$))?)' AS end_pattern,

    lines AS
    (
        SELECT
            if(
                host = '', if(peer = '', file, peer),
                if(match(host, '^([0-9.]+|.*:.*)$'), host, lower(splitByChar('.', toString(host))[1]))
            ) AS owner,
            host,
            toUnixTimestamp64Micro(event_time) AS at_us,
            if(generation = '', -1, toInt64(offset)) AS place,
            generation,
            received_at,
            run_id,
            head,
            message,
            time_quality != 'arrival' AND match(head, '[0-9]:[0-9][0-9]') AS has_time,
            toUInt64OrNull(extract(thread, '^cpu[0-9]{1,19}:([0-9]{1,19})$')) AS head_world,
            -- 21:10:09:11.602 cpu3:1051): the uptime, which has milliseconds even if the timestamp has whole seconds.
            arrayMap(
                each -> toInt64(each),
                extractGroups(
                    head,
                    '\\b([0-9]{1,6}):([0-9]{2}):([0-9]{2}):([0-9]{2})\\.([0-9]{3})'
                    || ' cpu[0-9]{1,19}:[0-9]{1,19}(?: opID=[^\\s)]+)?\\)'
                )
            ) AS clock,
            if(
                empty(clock),
                NULL,
                (((clock[1] * 24 + clock[2]) * 60 + clock[3]) * 60 + clock[4]) * 1000 + clock[5]
            ) AS uptime_ms
        FROM log_lines_stored
        WHERE
            source = 'syslog'
            AND (program = '' OR startsWith(program, 'vmk'))
            AND event_time >= {first_at:DateTime64(6, 'UTC')} - toIntervalMinute({margin_minutes:Int64})
            AND event_time < {end_at:DateTime64(6, 'UTC')} + toIntervalMinute({margin_minutes:Int64})
            AND (
                hasAll(tokens(lower(message), 'splitByNonAlpha'), ['sync', 'cr', 'at'])
                OR hasAll(tokens(lower(message), 'splitByNonAlpha'), ['reservation', 'conflict'])
                OR hasAll(tokens(lower(message), 'splitByNonAlpha'), ['reservation', 'conflicts'])
            )
            AND match(message, '^(' || step_pattern || '|' || end_pattern || ')')
            AND NOT match(head, '(\\b[A-Z][0-9]{3}|\\b[A-Z][a-z]\\([0-9]{1,3}\\))\\[?\\+')
            AND cityHash64(lower(splitByChar('.', toString(host))[1])) % {buckets:UInt32} = {bucket:UInt32}
    ),

    -- One line can contain all steps of a count-down.
    said AS
    (
        SELECT
            *,
            arrayJoin(arrayZip(arrayEnumerate(groups), groups)) AS found,
            extractAllGroupsVertical(message, step_pattern) AS groups,
            toUInt64(if(found.2[1] = '', found.2[5], found.2[1])) AS world,
            lower(found.2[3]) AS opcode,
            toUInt32(if(found.2[2] = '', found.2[4], found.2[2])) AS remaining,
            (at_us, place, found.1, concat(head, message)) AS written,
            -- Equal in two copies of a line; unique for a line without a time.
            multiIf(
                isNotNull(uptime_ms), concat('boot ', toString(uptime_ms), ' ', toString(found.1)),
                has_time, concat('time ', toString(intDiv(at_us, 1000)), ' ', toString(found.1)),
                toString(written)
            ) AS moment
        FROM lines
        WHERE length(found.2[2]) <= 9 AND length(found.2[4]) <= 9
    ),

    steps AS
    (
        SELECT *
        FROM
        (
            SELECT
                *,
                at_us - lagInFrame(at_us) OVER (
                    PARTITION BY owner, world, opcode, remaining, moment ORDER BY written
                    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
                ) <= {copy_within_seconds:Int64} * 1000000 AS is_copy
            FROM said
        ) AS compared
        WHERE NOT is_copy
    ),

    -- A world retries one command at a time. A step that is not lower than the last, or comes after a silence, begins
    -- another count-down.
    begun AS
    (
        SELECT
            *,
            row_number() OVER earlier AS place_in_all,
            lagInFrame(remaining) OVER earlier AS remaining_before,
            at_us - lagInFrame(at_us) OVER earlier > {recovered_after_seconds:Int64} * 1000000
            OR coalesce(uptime_ms - lagInFrame(uptime_ms) OVER earlier > {recovered_after_seconds:Int64} * 1000, FALSE)
                AS is_after_silence,
            place_in_all = 1 OR is_after_silence OR remaining >= remaining_before AS begins
        FROM steps
        WINDOW earlier AS (
            PARTITION BY owner, world, opcode ORDER BY written
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        )
    ),

    numbered AS
    (
        SELECT
            *,
            sum(begins) OVER (
                PARTITION BY owner, world, opcode ORDER BY written
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS run,
            -- The next step of this world begins another count-down, without a silence before it.
            leadInFrame(begins AND NOT is_after_silence) OVER (
                PARTITION BY owner, world, opcode ORDER BY written
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
            ) AS is_followed
        FROM begun
    ),

    -- A line that reports exhausted retries belongs to a step shortly before it: one of the world in its head, else one
    -- that reached 0, else the nearest.
    ends AS
    (
        SELECT DISTINCT
            owner,
            (at_us, place) AS ended,
            has_time,
            head_world,
            intDiv(at_us, 1000000 * {joined_within_seconds:Int64}) AS slot,
            arrayJoin([slot, slot - 1]) AS step_slot
        FROM lines
        WHERE arrayExists(each -> toUInt64OrZero(each[1]) = 0, extractAllGroupsVertical(message, end_pattern))
    ),

    possible AS
    (
        SELECT
            ends.owner AS owner,
            ended,
            ends.has_time AS has_time,
            ends.head_world AS end_world,
            (numbered.world, numbered.opcode, numbered.run) AS countdown,
            numbered.remaining AS remaining,
            numbered.written AS written,
            multiIf(
                coalesce(end_world = numbered.world, FALSE), 2,
                coalesce(end_world = numbered.head_world, FALSE), 1,
                -- ESX 4 logs a step in the world that happens to retry it. Lines without a head contain no world.
                isNull(end_world) OR NOT coalesce(numbered.head_world = numbered.world, FALSE), 0,
                -1
            ) AS trust
        FROM ends
        INNER JOIN numbered
            ON ends.owner = numbered.owner
            AND ends.step_slot = intDiv(numbered.at_us, 1000000 * {joined_within_seconds:Int64})
        WHERE
            trust >= 0
            AND ended.1 - numbered.at_us <= 1000000 * {joined_within_seconds:Int64}
            AND if(ends.has_time, numbered.at_us <= ended.1, (numbered.at_us, numbered.place) <= ended)
    ),

    blamed AS
    (
        SELECT owner, argMax(possible.countdown, (trust, trust = 0 AND remaining = 0, written)) AS countdown
        FROM possible
        GROUP BY owner, ended, has_time, end_world
    ),

    -- The last time that a replay read from a host's files. Live, a timer detects silence. An outcome that only another
    -- replay settles can have been known or not.
    told AS
    (
        SELECT
            if(
                host = '', if(peer = '', file, peer),
                if(match(host, '^([0-9.]+|.*:.*)$'), host, lower(splitByChar('.', toString(host))[1]))
            ) AS owner,
            run_id,
            toUnixTimestamp64Micro(max(max(event_time)) OVER (
                PARTITION BY generation, run_id, if(generation = '', owner, '')
            )) AS told_us
        FROM log_lines_stored
        WHERE
            time_quality != 'arrival'
            AND event_time >= {first_at:DateTime64(6, 'UTC')} - toIntervalHour(2)
            AND event_time < {end_at:DateTime64(6, 'UTC')} + toIntervalHour(2)
        GROUP BY owner, run_id, generation
    ),

    tellers AS
    (
        SELECT owner, groupArray((run_id, told_us)) AS runs
        FROM told
        WHERE owner IN (SELECT owner FROM lines)
        GROUP BY owner
    ),

    countdowns AS
    (
        SELECT
            owner,
            world,
            opcode,
            numbered.run AS run,
            min(written).1 AS started_us,
            count() AS step_count,
            argMin(remaining, written) AS first_remaining,
            argMax(remaining, written) AS last_remaining,
            max(at_us) AS last_us,
            argMax(is_followed, written) AS is_over,
            argMax(run_id, written) AS last_run,
            argMax(received_at, written) + toIntervalSecond({recovered_after_seconds:Int64} + 2) AS waits_until,
            last_run = 'live' AND waits_until < now64() AS is_waited_out,
            max((length(host), host)).2 AS fullest_host
        FROM numbered
        GROUP BY owner, world, opcode, run
    ),

    ended AS
    (
        SELECT
            countdowns.*,
            tellers.runs AS tellers,
            (countdowns.owner, (countdowns.world, countdowns.opcode, countdowns.run)) IN (
                SELECT (owner, countdown)
                FROM blamed
            ) AS has_run_out
        FROM countdowns
        LEFT JOIN tellers ON countdowns.owner = tellers.owner
    ),

    recomputed AS
    (
        SELECT
            lower(splitByChar('.', fullest_host)[1]) AS host_label,
            world AS world_of,
            opcode AS opcode_of,
            intDiv(started_us, 1000) AS started_ms,
            last_us + {recovered_after_seconds:Int64} * 1000000 AS silent_us,
            CAST(
                map(
                    'first_remaining', toString(first_remaining),
                    'last_remaining', toString(last_remaining),
                    'steps', toString(step_count),
                    'outcome',
                    multiIf(
                        last_remaining = 0 OR has_run_out, 'failed',
                        is_over OR is_waited_out, 'recovered',
                        arrayExists(each -> each.1 = last_run AND each.2 > silent_us, tellers), 'recovered',
                        arrayExists(each -> each.2 > silent_us, tellers), 'open or recovered',
                        'open'
                    )
                ),
                'Map(String, String)'
            ) AS said
        FROM ended
        WHERE
            started_us >= toUnixTimestamp64Micro({first_at:DateTime64(6, 'UTC')})
            AND started_us < toUnixTimestamp64Micro({end_at:DateTime64(6, 'UTC')})
    ),

    shown AS
    (
        SELECT
            lower(splitByChar('.', toString(host))[1]) AS host_label,
            coalesce(world_id, 0) AS world_of,
            coalesce(opcode, '') AS opcode_of,
            intDiv(toUnixTimestamp64Micro(started_at), 1000) AS started_ms,
            CAST(
                map(
                    'first_remaining', toString(coalesce(first_remaining, 0)),
                    'last_remaining', toString(coalesce(last_remaining, 0)),
                    'steps', toString(steps),
                    'outcome', outcome
                ),
                'Map(String, String)'
            ) AS said,
            detected_at < {kept_since:DateTime64(6, 'UTC')} AS is_old
        FROM reservation_conflicts
        WHERE
            dialect = 'sync_cr'
            AND cityHash64(host_label) % {buckets:UInt32} = {bucket:UInt32}
            AND started_at >= {first_at:DateTime64(6, 'UTC')}
            AND started_at < {end_at:DateTime64(6, 'UTC')}
    ),

    matched AS
    (
        SELECT
            concat(host_label, ' world ', toString(world_of)) AS whose,
            concat(whose, if(opcode_of = '', '', concat(' opcode ', opcode_of))) AS owner,
            toString(fromUnixTimestamp64Milli(started_ms, 'UTC')) AS anchor,
            arraySort(each -> toString(each), groupArrayIf(said, side = 1)) AS recomputed_rows,
            arraySort(
                each -> toString(each),
                arrayMap(
                    -- Both outcomes are correct if only another replay settles it.
                    each -> mapApply(
                        (name, value) -> (
                            name,
                            if(
                                value IN ('open', 'recovered') AND recomputed_rows[1]['outcome'] = 'open or recovered',
                                'open or recovered',
                                value
                            )
                        ),
                        each
                    ),
                    groupArrayIf(said, side = 2)
                )
            ) AS stored_rows,
            multiIf(
                recomputed_rows = stored_rows, 'same',
                empty(stored_rows), 'missing',
                max(is_old), 'expired',
                empty(recomputed_rows), 'extra',
                'different'
            ) AS finding
        FROM
        (
            SELECT host_label, world_of, opcode_of, started_ms, said, 1 AS side, FALSE AS is_old
            FROM recomputed
            UNION ALL
            SELECT host_label, world_of, opcode_of, started_ms, said, 2 AS side, is_old
            FROM shown
        ) AS sides
        GROUP BY host_label, world_of, opcode_of, started_ms
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
