-- One row is one measure before and after one change.
-- Internal: a part of change_effects_of, which gives the parameters.
-- `scopes`: the column of change_scopes_of, an array of tuples as ClickHouse writes it, in base64. A literal is
-- analysed once: ClickHouse analyses a subquery again for each time that it is named, which took seconds. JSON would
-- not do: with one name that is not UTF-8, no row could be read.
CREATE OR REPLACE VIEW change_effects_in
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    toIntervalDay({days:UInt32}) AS reach,
    toIntervalMinute({settle_minutes:UInt32}) AS settling,

    -- Constants without a subquery: ClickHouse analyses a subquery again at each use.
    CAST(
        -- ClickHouse evaluates this with an empty parameter when the view is created.
        if(empty({scopes:String}), '[]', base64Decode({scopes:String})),
        'Array(Tuple(
            UInt64, String, Int64, String, String, String, String, String,
            Array(String), Array(String), Array(String), Array(String), UInt64
        ))'
    ) AS scoped,
    arrayMap(each -> toDateTime64(fromUnixTimestamp64Milli(each.3, 'UTC'), 6, 'UTC'), scoped) AS moments,
    (arrayMin(moments) - reach, arrayMax(moments) + reach) AS span,

    -- The start of each side, and the time just after its end.
    arrayDistinct(arrayConcat(
        arrayMap(moment -> moment - reach, moments), moments,
        arrayMap(moment -> moment + settling, moments), arrayMap(moment -> moment + reach, moments)
    )) AS edges,
    arrayMap(edge -> dateDiff('hour', span.1, edge), edges) AS edge_hours,

    -- For each hour of the range: the number of its group of hours. An hour in which a side begins or ends is a group
    -- of its own.
    arrayCumSum(arrayMap(
        hour -> toUInt32(has(edge_hours, hour) OR has(edge_hours, hour - 1)),
        range(toUInt64(dateDiff('hour', span.1, span.2) + 1))
    )) AS stretches,

    -- The hosts and datastores that stuns are limited to, and the names that conflicts and latencies keep.
    arrayDistinct(arrayFlatten(arrayMap(each -> arrayConcat(each.9, each.10), scoped))) AS stun_names,
    arrayDistinct(arrayFlatten(arrayMap(each -> arrayConcat(each.12, each.11, each.10), scoped))) AS conflict_names,
    arrayDistinct(arrayFlatten(arrayMap(each -> each.11, scoped))) AS latency_names,

    -- The smallest nth of the changes that are not limited to hosts or datastores.
    arrayMin(arrayMap(
        each -> each.13, arrayFilter(each -> empty(each.9) AND empty(each.10), scoped)
    )) AS least_one_vm_of,

    asked AS
    (
        SELECT
            each.1 AS n, each.2 AS asked_id, fromUnixTimestamp64Milli(each.3, 'UTC') AS moment, each.4 AS asked_title,
            each.5 AS asked_kind, each.6 AS for_host, each.7 AS for_device, each.8 AS for_datastore,
            each.9 AS hosts, each.10 AS volumes, each.11 AS luns, each.12 AS near_hosts, each.13 AS one_vm_of,
            arrayJoin([0, 1]) AS is_after,
            toDateTime64(if(is_after, moment + settling, moment - reach), 6, 'UTC') AS side_from_at,
            toDateTime64(if(is_after, moment + reach, moment), 6, 'UTC') - toIntervalMicrosecond(1) AS side_until_at
        FROM (SELECT arrayJoin(scoped) AS each) AS one
    ),

    stunned AS
    (
        SELECT
            ended_at, toString(host) AS on_host, toString(datastore) AS on_volume,
            cityHash64(datastore, vm) AS vm_hash, duration_us / 1e6 AS duration_s
        FROM stuns_by_time_stored FINAL
        PREWHERE ended_at >= span.1 AND ended_at < span.2
        WHERE
            positionCaseInsensitive(vm, {vm:String}) > 0
            AND (
                (least_one_vm_of > 0 AND vm_hash % greatest(least_one_vm_of, 1) = 0)
                OR arrayExists(
                    name -> name IN (SELECT arrayJoin(stun_names)),
                    [on_host, on_volume]
                )
            )
        SETTINGS do_not_merge_across_partitions_select_final = 1
    ),

    -- Only the hosts, LUNs and datastores of the changes keep their names; all others are grouped.
    conflicted AS
    (
        SELECT
            started_at,
            arrayMap(
                name -> if(
                    name = '' OR name IN (SELECT arrayJoin(conflict_names)),
                    name,
                    ' '
                ),
                [toString(host), if(device = '', toString(path), toString(device)), toString(datastore)]
            ) AS names,
            names[1] AS on_host,
            names[2] AS on_device,
            names[3] AS on_volume
        FROM reservation_conflicts_stored FINAL
        PREWHERE started_at >= span.1 AND started_at < span.2
        WHERE NOT is_expected
        SETTINGS do_not_merge_across_partitions_select_final = 1
    ),

    -- The first and last line or event of each side and measure.
    (
        SELECT groupArray((n, is_after, measure, side_first_at, reach_s, speaks_for))
        FROM
        (
            SELECT
                n, is_after, measure,
                min(greatest(first_at, side_from_at)) AS side_first_at,
                dateDiff('second', side_first_at, max(least(last_at, side_until_at))) AS reach_s,
                if(measure = 'stuns_per_day', any(one_vm_of), 1) AS speaks_for
            FROM
            (
                SELECT
                    'stuns_per_day' AS measure, ended_at AS first_at, ended_at AS last_at,
                    on_host, '' AS on_device, on_volume, vm_hash
                FROM stunned
                UNION ALL
                SELECT
                    'conflict_episodes_per_day' AS measure, min(started_at) AS first_at, max(started_at) AS last_at,
                    on_host, on_device, on_volume, 0 AS vm_hash
                FROM conflicted
                GROUP BY on_host, on_device, on_volume, arrayCount(edge -> edge <= started_at, edges)
                UNION ALL
                SELECT
                    if(source = 'vmware_log', 'stuns_per_day', 'conflict_episodes_per_day') AS measure,
                    min(event_time) AS first_at, max(event_time) AS last_at,
                    toString(host) AS on_host, '' AS on_device, toString(datastore) AS on_volume, 0 AS vm_hash
                FROM log_lines_stored
                WHERE
                    event_time >= span.1 AND event_time < span.2
                    AND (
                        (source = 'syslog' AND program = 'vmkernel')
                        OR (source = 'vmware_log' AND positionCaseInsensitive(vm, {vm:String}) > 0)
                    )
                GROUP BY source, host, datastore, stretches[dateDiff('hour', span.1, event_time) + 1]
            ) AS heard
            CROSS JOIN asked
            WHERE
                first_at <= side_until_at AND last_at >= side_from_at
                AND if(
                    measure = 'stuns_per_day',
                    vm_hash % one_vm_of = 0
                    AND (empty(volumes) OR has(volumes, on_volume))
                    AND (empty(hosts) OR has(hosts, on_host)),
                    (empty(near_hosts) OR has(near_hosts, on_host))
                    -- The logs of old hosts never name the device.
                    AND (
                        empty(luns) OR has(luns, on_device) OR has(volumes, on_device) OR has(volumes, on_volume)
                        OR (on_device = '' AND on_volume = '')
                    )
                )
            GROUP BY n, is_after, measure
        ) AS each_side
    ) AS watched,

    events AS
    (
        SELECT
            n, is_after, 'stuns_per_day' AS measure, ended_at AS at, 1 AS times, [duration_s] AS durations
        FROM stunned
        CROSS JOIN asked
        WHERE
            ended_at >= side_from_at AND ended_at <= side_until_at
            AND vm_hash % one_vm_of = 0
            AND (empty(volumes) OR has(volumes, on_volume))
            AND (empty(hosts) OR has(hosts, on_host))
        UNION ALL
        SELECT
            n, is_after, 'conflict_episodes_per_day' AS measure, at, times, [] AS durations
        FROM
        (
            -- The conflicts of a minute are on the same day as the first of them.
            SELECT min(started_at) AS at, count() AS times, on_host, on_device, on_volume
            FROM conflicted
            GROUP BY
                on_host, on_device, on_volume, arrayCount(edge -> edge <= started_at, edges),
                toStartOfMinute(started_at)
        ) AS conflicts
        CROSS JOIN asked
        WHERE
            at >= side_from_at AND at <= side_until_at
            AND (empty(near_hosts) OR has(near_hosts, on_host))
            AND (
                empty(luns) OR has(luns, on_device) OR has(volumes, on_device) OR has(volumes, on_volume)
                OR (on_device = '' AND on_volume = '')
            )
    ),

    binned AS
    (
        SELECT
            n, is_after, measure, reach_s, speaks_for,
            -- A day with less than half of its time watched does not count.
            toUInt32(greatest(1, round(reach_s / 86400))) AS days_count,
            sumMap([bin], [happened]) AS by_day,
            sum(happened) AS events_count,
            groupArrayIf(day_durations, notEmpty(day_durations)) AS durations_by_day,
            arrayFlatten(durations_by_day) AS durations
        FROM
        (
            SELECT
                sides.n AS n, sides.is_after AS is_after, sides.measure AS measure, reach_s, speaks_for,
                if(times = 0, 0, intDiv(dateDiff('second', side_first_at, at), 86400)) AS bin,
                sum(times) AS happened,
                groupArrayArray(durations) AS day_durations
            FROM
            (
                SELECT
                    side.1 AS n, side.2 AS is_after, side.3 AS measure, side.4 AS side_first_at,
                    side.5 AS reach_s, side.6 AS speaks_for
                FROM (SELECT arrayJoin(watched) AS side) AS each_side
            ) AS sides
            LEFT JOIN events
                ON sides.n = events.n AND sides.is_after = events.is_after AND sides.measure = events.measure
            GROUP BY n, is_after, measure, reach_s, speaks_for, bin
        ) AS per_bin
        GROUP BY n, is_after, measure, reach_s, speaks_for
    ),

    -- Hours of LUNs, and minutes of the hours in which a side begins or ends. Without a device, those of the slowest
    -- LUN of the host.
    latencies AS
    (
        SELECT
            first_at, last_at, any(host) AS on_host, max(minute_ms) AS mean_ms, max(sample_ms) AS peak_ms,
            any(named) AS name, arrayJoin(if(name = '', [''], [name, ''])) AS on_device
        FROM
        (
            SELECT
                toDateTime64(hour, 3, 'UTC') AS first_at, first_at + toIntervalSecond(3599) AS last_at,
                host, device, worst_davg_ms AS minute_ms, peak_davg_ms AS sample_ms
            FROM latency_hours_stored
            -- Without commands, a low latency does not count.
            WHERE
                object_class IN ('scsi_device', 'disk') AND hour >= span.1 AND hour < span.2
                AND worst_davg_ms > 0
            UNION ALL
            SELECT
                window_start AS first_at, first_at + toIntervalSecond(59) AS last_at,
                host, device, avg_davg_ms AS minute_ms, max_davg_ms AS sample_ms
            FROM latency_windows_stored
            WHERE
                object_class IN ('scsi_device', 'disk') AND NOT is_deleted AND avg_davg_ms > 0
                AND toStartOfHour(window_start) IN (
                    SELECT toStartOfHour(arrayJoin([moment, moment + settling])) FROM asked
                )
        ) AS measured
        -- By a hash: ClickHouse groups by names five times as slowly.
        GROUP BY
            first_at, last_at,
            cityHash64(host, if(device IN (SELECT arrayJoin(latency_names)), toString(device), '') AS named)
    ),

    latency_sides AS
    (
        SELECT
            n, is_after,
            groupArray(arrayReduce('quantileExactInclusive(0.5)', means)) AS medians,
            groupArray(arrayReduce('quantileExactInclusive(0.99)', peaks)) AS highest,
            toNullable(arrayReduce('quantileExactInclusive(0.5)', groupArrayArray(means) AS all_means)) AS middle,
            toNullable(arrayReduce('quantileExactInclusive(0.99)', groupArrayArray(peaks) AS all_peaks)) AS top,
            toUInt64(length(all_means)) AS hours_count
        FROM
        (
            SELECT n, is_after, day, groupArray(slowest_minute_ms) AS means, groupArray(slowest_ms) AS peaks
            FROM
            (
                SELECT
                    n, is_after, toStartOfHour(first_at) AS hour,
                    intDiv(dateDiff('second', any(moment) - reach, hour), 86400) AS day,
                    assumeNotNull(max(mean_ms)) AS slowest_minute_ms,
                    coalesce(max(peak_ms), slowest_minute_ms) AS slowest_ms
                FROM latencies
                CROSS JOIN asked
                WHERE
                    first_at >= side_from_at AND last_at <= side_until_at
                    AND if(empty(luns), on_device = '', has(luns, on_device))
                    AND (empty(near_hosts) OR has(near_hosts, on_host))
                GROUP BY n, is_after, hour, cityHash64(on_host, on_device)
            ) AS hours
            GROUP BY n, is_after, day
        ) AS days
        GROUP BY n, is_after
    ),

    -- For each side: the tested days, the value, and the number of events.
    samples AS
    (
        SELECT n, is_after, each.1 AS measure, each.2 AS tested_by, each.3 AS told, each.4 AS events_count
        FROM
        (
            SELECT
                n, is_after,
                arrayMap(
                    day -> toFloat64(by_day.2[indexOf(by_day.1, day)] * speaks_for), range(toUInt64(days_count))
                ) AS per_day,
                toUInt64(events_count * speaks_for) AS happened,
                arrayConcat(
                    [(
                        measure,
                        per_day,
                        toNullable(
                            if(reach_s < 86400, happened * 86400 / greatest(reach_s, 300), arrayAvg(per_day))
                        ),
                        happened
                    )],
                    if(
                        measure = 'stuns_per_day',
                        [
                            (
                                'stun_duration_p50_s',
                                arrayMap(day -> arrayReduce('quantileExactInclusive(0.5)', day), durations_by_day),
                                if(
                                    empty(durations),
                                    NULL,
                                    arrayReduce('quantileExactInclusive(0.5)', durations)
                                ),
                                happened
                            ),
                            (
                                'stun_duration_p99_s',
                                arrayMap(day -> arrayMax(day), durations_by_day),
                                if(
                                    empty(durations),
                                    NULL,
                                    arrayReduce('quantileExactInclusive(0.99)', durations)
                                ),
                                happened
                            )
                        ],
                        []
                    )
                ) AS measured
            FROM binned
        ) AS events_told
        ARRAY JOIN measured AS each
        UNION ALL
        SELECT n, is_after, each.1 AS measure, each.2 AS tested_by, each.3 AS told, each.4 AS events_count
        FROM latency_sides
        ARRAY JOIN [
            ('davg_p50_ms', medians, middle, hours_count),
            ('davg_p99_ms', highest, top, hours_count)
        ] AS each
    ),

    -- As a literal, like `watched`: ClickHouse takes longer to analyse a subquery the deeper it is nested.
    (
        SELECT groupArray((
            n, measure, is_enough, length(before), length(after), value_before, value_after, count_before,
            count_after, shift, p_alone, p_at_best
        ))
        FROM
        (
            SELECT
                n,
                measure,
                anyIf(tested_by, NOT is_after) AS before,
                anyIf(tested_by, is_after) AS after,
                round(anyIf(told, NOT is_after), 3) AS value_before,
                round(anyIf(told, is_after), 3) AS value_after,
                anyIf(events_count, NOT is_after) AS count_before,
                anyIf(events_count, is_after) AS count_after,
                least(length(before), length(after)) >= greatest({least_samples:UInt32}, 2) AS is_enough,
                if(is_enough, arrayConcat(before, after), [0., 0.]) AS days,
                if(is_enough, length(before), 1) AS before_count,
                toUInt8(least(length(days), 15)) AS few,
                -- Doubled ranks, because equal days share a rank in between.
                arrayMap(
                    day -> 2 * arrayCount(other -> other < day, days) + arrayCount(other -> other = day, days) + 1, days
                ) AS ranks,
                -- All permutations of few days, each as the bits of a number.
                if(
                    few <= 14,
                    arrayFilter(dealt -> bitCount(dealt) = before_count, range(bitShiftLeft(toUInt32(1), few))),
                    []
                ) AS deals,
                toInt64(before_count * (length(days) + 1)) AS usual_sum,
                -- Above 0 if the days before the change rank higher.
                toInt64(arraySum(arraySlice(ranks, 1, before_count))) - usual_sum AS shift,
                abs(shift) AS distance,
                if(
                    few <= 14,
                    arrayCount(
                        dealt -> abs(
                            toInt64(arraySum(
                                (rank, place) -> rank * bitTest(dealt, place - 1), ranks, arrayEnumerate(ranks)
                            )) - usual_sum
                        ) >= distance,
                        deals
                    ) / length(deals),
                    -- As an aggregate function, the test would fail if a side is empty.
                    arrayReduce(
                        'mannWhitneyUTest(\'two-sided\')',
                        days,
                        arrayMap(place -> toUInt8(place > before_count), arrayEnumerate(days))
                    ).2
                ) AS p,
                -- If all days are equal, there is no difference.
                if(is_enough, if(isFinite(p), least(p, 1), 1), NULL) AS p_alone,
                -- 2 of all permutations, binomial(days, before_count), have the largest difference.
                2 * exp(
                    lgamma(before_count + 1) + lgamma(length(days) - before_count + 1) - lgamma(length(days) + 1)
                ) AS p_at_best
            FROM samples
            GROUP BY n, measure
        ) AS each_measure
    ) AS known,

    compared AS
    (
        SELECT
            each.1 AS n, each.2 AS measure, each.3 AS is_enough, each.4 AS days_before, each.5 AS days_after,
            each.6 AS value_before, each.7 AS value_after, each.8 AS count_before, each.9 AS count_after,
            each.10 AS shift, each.11 AS p_alone, each.12 AS p_at_best
        FROM (SELECT arrayJoin(known) AS each) AS one
    ),

    tested AS
    (
        SELECT
            *,
            if(is_enough, least(1, p_at_best * countIf(is_enough) OVER (PARTITION BY n)), NULL) AS least_p,
            if(
                is_enough,
                least(1, max(p_alone * (tests - place + 1)) OVER (
                    PARTITION BY n, is_enough ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                )),
                NULL
            ) AS corrected
        FROM
        (
            SELECT
                *,
                count() OVER (PARTITION BY n, is_enough) AS tests,
                row_number() OVER (PARTITION BY n, is_enough ORDER BY p_alone, measure) AS place
            FROM compared
        ) AS in_order
    )

SELECT
    asked.asked_id AS change_id,
    asked.moment AS changed_at,
    asked.asked_title AS title,
    asked.asked_kind AS kind,
    asked.for_host AS host,
    asked.for_device AS device,
    asked.for_datastore AS datastore,
    asked.place AS measure_number,
    asked.measure AS measure,
    toUInt64(days_before) AS samples_before,
    toUInt64(days_after) AS samples_after,
    value_before,
    value_after,
    if(value_before > 0, round(100 * (value_after - value_before) / value_before, 1), NULL) AS change_percent,
    round(p_alone, 6) AS p_value,
    round(corrected, 6) AS p_holm,
    round(least_p, 6) AS smallest_p,
    multiIf(
        NOT is_enough OR least_p > {significance:Float64}, 'not tested',
        corrected > {significance:Float64}, 'no difference',
        abs(value_after - value_before) * 100 < {least_change_percent:Float64} * value_before, 'no difference',
        value_after < value_before AND shift > 0, 'better',
        value_after > value_before AND shift < 0, 'worse',
        'no difference'
    ) AS verdict,
    multiIf(
        measure LIKE '%stun%', multiIf(
            notEmpty(volumes), 'affected datastores',
            {vm:String} != '', 'given VMs',
            notEmpty(hosts), 'the host',
            for_device != '', 'everything: no datastore in the inventory',
            one_vm_of > 1, concat('every ', toString(one_vm_of), 'th VM'),
            'everything'
        ),
        notEmpty(luns), if(
            measure LIKE '%davg%',
            'affected LUNs',
            'affected LUNs, and conflicts of unknown LUNs'
        ),
        notEmpty(hosts), 'the host',
        notEmpty(near_hosts), 'hosts of the VMs: no LUN in the inventory',
        {vm:String} != '' OR for_datastore != '', 'everything: no LUN in the inventory',
        'everything'
    ) AS looked_at,
    count_before AS events_before,
    count_after AS events_after
FROM
(
    SELECT asked.*, each.1 AS place, each.2 AS measure
    FROM asked
    ARRAY JOIN [
        (1, 'stuns_per_day'),
        (2, 'stun_duration_p50_s'),
        (3, 'stun_duration_p99_s'),
        (4, 'conflict_episodes_per_day'),
        (5, 'davg_p50_ms'),
        (6, 'davg_p99_ms')
    ] AS each
    WHERE NOT is_after
) AS asked
LEFT JOIN tested ON asked.n = tested.n AND asked.measure = tested.measure;
