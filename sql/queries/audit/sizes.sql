-- How many lines and events does a check read, per interval of minutes since 1970? The conditions for lines are
-- those of the check's own query.
SELECT
    intDiv(at_us, {slot_minutes:Int64} * 60000000) AS slot,
    count() AS all_rows
FROM
(
    SELECT toUnixTimestamp64Micro(event_time) AS at_us
    FROM log_lines_stored
    WHERE
        {check:String} = 'stuns' AND source = 'vmware_log'
        AND (
            hasAll(tokens(lower(message), 'splitByNonAlpha'), ['checkpoint', 'unstun', 'stopped'])
            OR hasAll(tokens(lower(message), 'splitByNonAlpha'), ['cpt', 'stunned'])
            OR hasAny(tokens(lower(message), 'splitByNonAlpha'), ['cpt', 'monmodules'])
            OR hasAll(tokens(lower(message), 'splitByNonAlpha'), ['log', 'for', 'vmware'])
        )
    UNION ALL
    SELECT toUnixTimestamp64Micro(event_time) AS at_us
    FROM log_lines_stored
    WHERE
        {check:String} = 'migrations'
        AND source = 'syslog'
        AND hasAll(tokens(lower(message), 'splitByNonAlpha'), ['precopystuntime'])
    UNION ALL
    SELECT toUnixTimestamp64Micro(event_time) AS at_us
    FROM log_lines_stored
    WHERE
        {check:String} = 'sync_cr_countdowns' AND source = 'syslog'
        AND (program = '' OR startsWith(program, 'vmk'))
        AND (
            hasAll(tokens(lower(message), 'splitByNonAlpha'), ['sync', 'cr', 'at'])
            OR hasAll(tokens(lower(message), 'splitByNonAlpha'), ['reservation', 'conflict'])
            OR hasAll(tokens(lower(message), 'splitByNonAlpha'), ['reservation', 'conflicts'])
        )
    UNION ALL
    SELECT toUnixTimestamp64Micro(ended_at) AS at_us
    FROM stuns_stored
    WHERE {check:String} = 'stuns' OR ({check:String} = 'migrations' AND isNotNull(migration_id))
    UNION ALL
    SELECT toUnixTimestamp64Micro(started_at) AS at_us
    FROM reservation_conflicts_stored
    WHERE {check:String} = 'sync_cr_countdowns' AND dialect = 'sync_cr'
) AS read_by_the_check
GROUP BY slot
ORDER BY slot ASC;
