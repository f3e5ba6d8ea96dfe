-- One row is one measure before and after one of the twelve newest changes: 90 days on each side, a
-- value a day. p_value: how often chance alone would make the two sides differ as much (Mann-Whitney U,
-- two-sided). A change of one host, device or datastore is judged by what is logged of it.
-- A quick look: `stunwatch sql before_and_after_change` knows about watched time and inventory.
CREATE OR REPLACE VIEW change_effects AS
WITH
    recent AS
    (
        SELECT *
        FROM changes
        ORDER BY changed_at DESC
        LIMIT 12
    ),

    (
        SELECT (toStartOfDay(min(changed_at)) - INTERVAL 90 DAY, toStartOfDay(max(changed_at)) + INTERVAL 91 DAY)
        FROM recent
    ) AS span,

    -- What no change is about need not be told apart.
    (
        SELECT (groupUniqArray(toString(host)), groupUniqArray(toString(device)), groupUniqArray(toString(datastore)))
        FROM recent
    ) AS named,

    daily AS
    (
        SELECT
            toDate(ended_at) AS day,
            if(has(named.1, host), host, toLowCardinality('another')) AS of_host,
            toLowCardinality('') AS of_device,
            if(has(named.3, datastore), datastore, toLowCardinality('another')) AS of_datastore,
            arrayJoin(
                [('stuns per day', toFloat64(count())), ('longest stun of a day, s', max(duration_us) / 1000000)]
            ) AS measured
        FROM stuns_by_time
        WHERE ended_at >= span.1 AND ended_at < span.2
        GROUP BY day, of_host, of_datastore
        UNION ALL
        SELECT
            toDate(started_at) AS day,
            if(has(named.1, host), host, toLowCardinality('another')) AS of_host,
            if(device = '' OR has(named.2, device), device, toLowCardinality('another')) AS of_device,
            toLowCardinality('') AS of_datastore,
            ('conflicts per day', toFloat64(count())) AS measured
        FROM reservation_conflicts_stored FINAL
        WHERE started_at >= span.1 AND started_at < span.2 AND NOT is_expected
        GROUP BY day, of_host, of_device
        UNION ALL
        SELECT
            toDate(hour) AS day,
            if(has(named.1, host), host, toLowCardinality('another')) AS of_host,
            if(has(named.2, device), device, toLowCardinality('another')) AS of_device,
            toLowCardinality('') AS of_datastore,
            ('worst DAVG of a day, ms', assumeNotNull(max(worst_davg_ms))) AS measured
        FROM latency_hours_stored
        WHERE object_class = 'scsi_device' AND hour >= span.1 AND hour < span.2
        GROUP BY day, of_host, of_device
        HAVING isNotNull(max(worst_davg_ms))
    ),

    near AS
    (
        SELECT
            recent.*,
            measured.1 AS measure,
            measured.2 AS amount,
            day,
            (recent.host = '' OR daily.of_host IN ('', recent.host))
            AND (recent.device = '' OR daily.of_device IN ('', recent.device))
            AND (recent.datastore = '' OR daily.of_datastore IN ('', recent.datastore)) AS is_concerned
        FROM recent
        CROSS JOIN daily
        WHERE abs(dateDiff('day', changed_at, day)) <= 90
    ),

    -- Every day near a change of which anything is known, and what of it concerns the change.
    by_day AS
    (
        SELECT
            change_id, changed_at, title, kind, host, device, datastore, measure, day,
            max(is_concerned) AS is_known,
            if(endsWith(measure, 'per day'), sumIf(amount, is_concerned), maxIf(amount, is_concerned)) AS value
        FROM near
        GROUP BY change_id, changed_at, title, kind, host, device, datastore, measure, day
    ),

    sides AS
    (
        SELECT
            change_id, changed_at AS at, title AS what, kind AS sort, host AS for_host, device AS for_device,
            datastore AS for_datastore, measure,
            -- From the first to the last day near the change of which anything is known.
            greatest(0, dateDiff('day', min(day), toDate(at))) AS days_before,
            greatest(0, dateDiff('day', toDate(at), max(day))) AS days_after,
            groupArrayIf(value, is_known AND day < toDate(at)) AS seen_before,
            groupArrayIf(value, is_known AND day > toDate(at)) AS seen_after
        FROM by_day
        GROUP BY change_id, at, what, sort, for_host, for_device, for_datastore, measure
    ),

    padded AS
    (
        SELECT
            *,
            -- A day on which nothing was counted counts none.
            if(
                endsWith(measure, 'per day'),
                arrayResize(seen_before, greatest(length(seen_before), days_before), 0.),
                seen_before
            ) AS before,
            if(
                endsWith(measure, 'per day'),
                arrayResize(seen_after, greatest(length(seen_after), days_after), 0.),
                seen_after
            ) AS after,
            least(length(before), length(after)) >= 5 AS is_enough,
            -- As an aggregate the test would fail where a side is empty.
            arrayReduce(
                'mannWhitneyUTest(\'two-sided\')',
                if(is_enough, arrayConcat(before, after), [0., 0.]),
                if(is_enough, arrayConcat(arrayMap(each -> 0, before), arrayMap(each -> 1, after)), [0, 1])
            ).2 AS p
        FROM sides
    )

SELECT
    change_id,
    at AS changed_at,
    what AS title,
    sort AS kind,
    for_host AS host,
    for_device AS device,
    for_datastore AS datastore,
    multiIf(
        for_host != '', for_host, for_device != '', for_device, for_datastore != '', for_datastore, 'everything'
    ) AS scope,
    measure,
    length(before) AS days_before,
    length(after) AS days_after,
    if(empty(before), NULL, round(arrayAvg(before), 3)) AS value_before,
    if(empty(after), NULL, round(arrayAvg(after), 3)) AS value_after,
    if(is_enough AND isFinite(p), round(least(p, 1), 4), NULL) AS p_value,
    multiIf(
        NOT is_enough, 'too little data',
        coalesce(p_value, 1) > 0.05, 'no difference',
        abs(value_after - value_before) * 10 < value_before, 'no difference',
        value_after < value_before, 'better',
        value_after > value_before, 'worse',
        'no difference'
    ) AS outcome
FROM padded
SETTINGS do_not_merge_across_partitions_select_final = 1;
