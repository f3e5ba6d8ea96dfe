-- Did a change help: stuns, conflicts and latency before it and after it?
-- One row a measure. p_value: how often chance alone would make the two sides differ as much
-- (Mann-Whitney U, two-sided). better or worse: it is at most `significance`, and the value moved by
-- `least_change_percent`. too little data: a side has fewer than `least_samples`; an answer, too.
-- Samples: of a number per day, days, or hours or five minutes where logs reach over fewer days; of
-- stun_duration_p50_s, stuns; of _p99_s, the longest stun of each such day; of davg_p50_ms, the means
-- of five minutes of a LUN that had commands; of davg_p99_ms, the peaks of them.
-- Only time that was watched counts: on each side from the first to the last line of the VMs' logs
-- (or stun), or of the hosts' vmkernel (or conflict).
-- A change of one host, LUN or datastore is judged by what lies on it, as inventory tells; without
-- inventory the scope is wider, and looked_at says so.
-- param change = : its id (`stunwatch change list`); the latest one where `at` is not given either
-- param at = : a moment instead, UTC, for example 2012-05-01 06:00
-- param days = 90 : how far to look, before and after
-- param settle_minutes = 10 : how long after the change is left out
-- param vm = : part of the VM's name
-- param host = : one host
-- param datastore = : one datastore, by its name or UUID
-- param device = : one LUN
-- param least_samples = 5 : on each side
-- param significance = 0.05 : the largest p_value that counts
-- param least_change_percent = 10 : the smallest change that counts
WITH
    change AS
    (
        SELECT
            toNullable(changed_at) AS noted_for, toString(host) AS of_host,
            toString(device) AS of_device, toString(datastore) AS of_datastore
        FROM changes
        WHERE {at:String} = '' AND {change:String} IN ('', toString(change_id))
        ORDER BY changed_at DESC
        LIMIT 1
    ),

    -- Constants: each is worked out once.
    if(
        {at:String} = '',
        (SELECT max(noted_for) FROM change),
        parseDateTime64BestEffortOrNull({at:String}, 3, 'UTC')
    ) AS moment,
    moment - toIntervalDay({days:UInt32}) AS from_at,
    moment + toIntervalMinute({settle_minutes:UInt32}) AS settled_at,
    moment + toIntervalDay({days:UInt32}) AS until_at,
    if({host:String} = '', (SELECT any(of_host) FROM change), {host:String}) AS for_host,
    if({device:String} = '', (SELECT any(of_device) FROM change), {device:String}) AS for_device,
    if({datastore:String} = '', (SELECT any(of_datastore) FROM change), {datastore:String}) AS for_datastore,

    -- Every name of the host.
    arrayConcat(
        if(for_host = '', [], [for_host]),
        (
            SELECT groupUniqArrayArray(names)
            FROM
            (
                SELECT arrayPushBack(groupUniqArray(alias), host) AS names
                FROM host_aliases
                GROUP BY host
            ) AS known
            WHERE has(names, for_host)
        )
    ) AS hosts,

    (
        SELECT groupUniqArray((device, datastore, datastore_uuid))
        FROM host_extents
        WHERE if(for_datastore = '', device = for_device, for_datastore IN (datastore, datastore_uuid))
    ) AS extents,

    arrayFilter(
        each -> each != '',
        arrayConcat(
            [for_datastore], arrayMap(each -> each.2, extents), arrayMap(each -> each.3, extents)
        )
    ) AS volumes,

    (
        SELECT groupUniqArray(device)
        FROM vm_storage
        WHERE {vm:String} != '' AND positionCaseInsensitive(vm, {vm:String}) > 0 AND device != ''
    ) AS luns_of_vms,

    multiIf(
        for_device != '', [for_device],
        for_datastore != '', arrayMap(each -> each.1, extents),
        luns_of_vms
    ) AS luns,

    -- Where no LUN is known, the hosts that ran the VMs.
    (
        SELECT groupUniqArray(toString(host))
        FROM owners_seen_stored
        WHERE
            vm != '' AND host != '' AND positionCaseInsensitive(vm, {vm:String}) > 0
            AND (for_datastore = '' OR has(volumes, datastore))
    ) AS hosts_of_vms,

    if(
        notEmpty(hosts) OR notEmpty(luns) OR ({vm:String} = '' AND for_datastore = ''),
        hosts,
        hosts_of_vms
    ) AS near_hosts,

    -- Of a fleet's year the stuns of every nth VM speak for all, and the samples of every nth host.
    (
        SELECT greatest(1, intDiv(count(), 50000))
        FROM stuns_stored
        WHERE
            ended_at >= from_at AND ended_at < until_at
            AND positionCaseInsensitive(vm, {vm:String}) > 0
            AND (empty(volumes) OR has(volumes, datastore))
            AND (empty(hosts) OR has(hosts, host))
    ) AS one_vm_of,
    assumeNotNull(one_vm_of) AS nth_vm,

    (
        SELECT greatest(1, intDiv(count(), 250000))
        FROM latency_samples_stored
        WHERE
            object_class IN ('scsi_device', 'disk')
            AND sampled_at >= from_at AND sampled_at < until_at
            AND (empty(luns) OR has(luns, device))
            AND (empty(near_hosts) OR has(near_hosts, host))
    ) AS one_host_of,
    assumeNotNull(one_host_of) AS nth_host,

    -- What happened, and when somebody listened: the first and the last line of each side.
    watched AS
    (
        SELECT
            'stuns_per_day' AS measure, toDateTime64(ended_at, 6, 'UTC') AS seen_at,
            duration_us / 1e6 AS duration_s, 1 AS is_event
        FROM stuns_stored FINAL
        PREWHERE
            ended_at >= from_at AND ended_at < until_at
            AND cityHash64(datastore, vm) % nth_vm = 0
        WHERE
            positionCaseInsensitive(vm, {vm:String}) > 0
            AND (empty(volumes) OR has(volumes, datastore))
            AND (empty(hosts) OR has(hosts, host))
        UNION ALL
        SELECT
            'conflict_episodes_per_day' AS measure, toDateTime64(started_at, 6, 'UTC') AS seen_at,
            0 AS duration_s, 1 AS is_event
        FROM reservation_conflicts_stored FINAL
        PREWHERE started_at >= from_at AND started_at < until_at
        WHERE
            NOT is_expected
            AND (empty(near_hosts) OR has(near_hosts, host))
            -- The log of old hosts never names the device.
            AND (empty(luns) OR device = '' OR has(luns, device) OR has(volumes, device))
        UNION ALL
        SELECT
            measure, arrayJoin([min(event_time), max(event_time)]) AS seen_at,
            0 AS duration_s, 0 AS is_event
        FROM
        (
            SELECT
                if(source = 'vmware_log', 'stuns_per_day', 'conflict_episodes_per_day') AS measure,
                event_time
            FROM log_lines_stored
            WHERE
                event_time >= from_at AND event_time < until_at
                AND NOT (event_time >= moment AND event_time < settled_at)
                AND (
                    (
                        source = 'syslog' AND program = 'vmkernel'
                        AND (empty(near_hosts) OR has(near_hosts, host))
                    )
                    OR (
                        source = 'vmware_log'
                        AND positionCaseInsensitive(vm, {vm:String}) > 0
                        AND (empty(volumes) OR has(volumes, datastore))
                        AND (empty(hosts) OR has(hosts, host))
                    )
                )
        ) AS lines
        GROUP BY measure, event_time >= moment
    ),

    sides AS
    (
        SELECT
            measure,
            seen_at >= moment AS is_after,
            min(seen_at) AS first_at,
            dateDiff('second', min(seen_at), max(seen_at)) AS reach_s,
            arraySort(groupArrayIf((seen_at, duration_s), is_event)) AS events
        FROM watched
        WHERE NOT (seen_at >= moment AND seen_at < settled_at)
        GROUP BY measure, is_after
    ),

    shared AS
    (
        SELECT
            *,
            min(reach_s) OVER (PARTITION BY measure) AS shorter_s,
            -- The widest that gives both sides enough samples.
            multiIf(
                shorter_s > 86400 * ({least_samples:UInt32} - 1), 86400,
                shorter_s > 3600 * ({least_samples:UInt32} - 1), 3600,
                300
            ) AS width_s
        FROM sides
    ),

    binned AS
    (
        SELECT
            measure, is_after, events, width_s,
            arrayMap(each -> intDiv(dateDiff('second', first_at, each.1), width_s), events) AS bins,
            -- The events of one bin stand together.
            if(
                empty(events),
                [],
                arraySplit((each, step) -> step != 0, events, arrayDifference(bins))
            ) AS together,
            toUInt32(greatest(1, toUInt64(ceil(reach_s / width_s)), length(together))) AS bins_count
        FROM shared
    ),

    latencies AS
    (
        SELECT
            sampled_at >= moment AS is_after,
            assumeNotNull(avg(davg_ms)) AS mean_ms,
            assumeNotNull(max(davg_ms)) AS peak_ms
        FROM latency_samples_stored FINAL
        PREWHERE
            object_class IN ('scsi_device', 'disk')
            AND sampled_at >= from_at AND sampled_at < until_at
            AND cityHash64(host) % nth_host = 0
        WHERE
            NOT (sampled_at >= moment AND sampled_at < settled_at)
            AND isNotNull(davg_ms) AND coalesce(commands_per_second, 1) > 0
            AND (empty(luns) OR has(luns, device))
            AND (empty(near_hosts) OR has(near_hosts, host))
        GROUP BY
            is_after, host, origin, toStartOfInterval(sampled_at, INTERVAL 5 MINUTE),
            -- Of a whole fleet the LUNs of a host are taken together: else they are too many.
            if(empty(luns) AND empty(near_hosts), '', device)
    ),

    latency_sides AS
    (
        SELECT is_after, groupArray(mean_ms) AS means, groupArray(peak_ms) AS peaks
        FROM latencies
        GROUP BY is_after
    ),

    -- Of each side: what is tested, and what the value is taken from. Each table is read once.
    samples AS
    (
        SELECT each.1 AS measure, is_after, each.2 AS tested_by, each.3 AS told_by
        FROM
        (
            SELECT
                is_after,
                arrayConcat(
                    arrayMap(
                        step -> length(step) * 86400 * if(measure = 'stuns_per_day', nth_vm, 1) / width_s,
                        together
                    ),
                    arrayWithConstant(bins_count - length(together), 0.)
                ) AS per_day,
                arrayMap(event -> event.2, events) AS durations,
                arrayMap(step -> arrayMax(arrayMap(event -> event.2, step)), together) AS longest,
                if(
                    measure = 'stuns_per_day',
                    [
                        (measure, per_day, per_day),
                        ('stun_duration_p50_s', durations, durations),
                        ('stun_duration_p99_s', longest, durations)
                    ],
                    [(measure, per_day, per_day)]
                ) AS measured
            FROM binned
        ) AS events_told
        ARRAY JOIN measured AS each
        UNION ALL
        SELECT each.1 AS measure, is_after, each.2 AS tested_by, each.2 AS told_by
        FROM latency_sides
        ARRAY JOIN [('davg_p50_ms', means), ('davg_p99_ms', peaks)] AS each
    ),

    tested AS
    (
        SELECT
            measure,
            anyIf(tested_by, NOT is_after) AS before,
            anyIf(tested_by, is_after) AS after,
            anyIf(told_by, NOT is_after) AS told_before,
            anyIf(told_by, is_after) AS told_after,
            least(length(before), length(after)) >= {least_samples:UInt32} AS is_enough,
            -- As an aggregate the test would fail where a side is empty.
            arrayReduce(
                'mannWhitneyUTest(\'two-sided\')',
                if(is_enough, arrayConcat(before, after), [0., 0.]),
                if(
                    is_enough,
                    arrayConcat(arrayMap(each -> 0, before), arrayMap(each -> 1, after)),
                    [0, 1]
                )
            ).2 AS p
        FROM samples
        GROUP BY measure
    )

SELECT
    asked.2 AS measure,
    toUInt64(length(before)) AS samples_before,
    toUInt64(length(after)) AS samples_after,
    round(multiIf(
        empty(told_before), NULL,
        endsWith(measure, '_per_day'), arrayAvg(told_before),
        measure LIKE '%p50%', arrayReduce('quantileExactInclusive(0.5)', told_before),
        arrayReduce('quantileExactInclusive(0.99)', told_before)
    ), 3) AS value_before,
    round(multiIf(
        empty(told_after), NULL,
        endsWith(measure, '_per_day'), arrayAvg(told_after),
        measure LIKE '%p50%', arrayReduce('quantileExactInclusive(0.5)', told_after),
        arrayReduce('quantileExactInclusive(0.99)', told_after)
    ), 3) AS value_after,
    if(is_enough AND isFinite(p), round(least(p, 1), 6), NULL) AS p_value,
    multiIf(
        NOT is_enough, 'too little data',
        coalesce(p_value, 1) > {significance:Float64}, 'no difference',
        abs(value_after - value_before) * 100 < {least_change_percent:Float64} * value_before, 'no difference',
        value_after < value_before, 'better',
        value_after > value_before, 'worse',
        'no difference'
    ) AS verdict,
    multiIf(
        measure LIKE '%stun%', multiIf(
            notEmpty(volumes), 'the datastores concerned',
            {vm:String} != '', 'the VMs named',
            notEmpty(hosts), 'the host',
            for_device != '', 'everything: inventory names no datastore',
            nth_vm > 1, concat('every ', toString(nth_vm), 'th VM'),
            'everything'
        ),
        notEmpty(luns), if(
            measure LIKE '%davg%', 'the LUNs concerned',
            'the LUNs concerned, and conflicts of no known LUN'
        ),
        notEmpty(hosts), 'the host',
        notEmpty(near_hosts), 'the hosts of the VMs: inventory names no LUN',
        {vm:String} != '' OR for_datastore != '', 'everything: inventory names no LUN',
        measure LIKE '%davg%' AND nth_host > 1, concat('every ', toString(nth_host), 'th host'),
        'everything'
    ) AS looked_at,
    assumeNotNull(moment) AS changed_at
FROM
(
    SELECT arrayJoin([
        (1, 'stuns_per_day'),
        (2, 'stun_duration_p50_s'),
        (3, 'stun_duration_p99_s'),
        (4, 'conflict_episodes_per_day'),
        (5, 'davg_p50_ms'),
        (6, 'davg_p99_ms')
    ]) AS asked
) AS measures
LEFT JOIN tested ON tested.measure = asked.2
WHERE isNotNull(moment)
ORDER BY asked.1 ASC;
