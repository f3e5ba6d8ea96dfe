-- One row is one data-quality event: lines that are missing, cut, rejected, not searched or late, a wrong
-- clock, a silent source, no live lines at all, or a borrowed host name. Detectors find log_throttled and gaps of
-- a host; this view derives the others from stored data. `late`, `clock_skew`, `silent_source`, `no_live_lines`
-- and `borrowed_name` exist only live.
--
-- `count` depends on the kind. `log_throttled`: marks. `gap`: messages that a host lost (evidence: its
-- lines), or bytes of a file that did not arrive (evidence: which). `truncated`, `unsearched`, `rejected`,
-- `late`, `clock_skew`: lines. `detector_failed`: records on which a detector failed and lost its state;
-- only the first few are stored (evidence: detector, error, record). `silent_source`: intervals of five
-- minutes in which other sources sent lines. `no_live_lines`: seconds without a line of any source, where they
-- exceed the limit (see newest_line). `borrowed_name`: names that its sender uses (evidence: who; see
-- borrowed_names). An `unsearched` line has more than 4,096 characters, and no detector reads it.
-- A row of `truncated`, `unsearched`, `rejected`, `detector_failed`, `late` or `clock_skew` is one hour of
-- one source of one host.
CREATE OR REPLACE VIEW quality_events
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    told AS
    (
        SELECT
            event_id,
            kind,
            host,
            source,
            started_at,
            toNullable(ended_at) AS ended_at,
            quality_events_stored.count AS count,
            evidence,
            detected_at,
            run_id
        FROM quality_events_stored FINAL
        SETTINGS do_not_merge_across_partitions_select_final = 1
    ),

    -- A duplicate line counts by its first arrival, so that a replay changes nothing here.
    long_lines AS
    (
        SELECT
            source,
            host,
            event_time,
            argMin(run_id, received_at) AS line_run_id,
            min(received_at) AS arrived_at,
            any(substring(concat(head, message), 1, 1000)) AS line,
            [if(max(log_lines_stored.truncated), 'truncated', ''), if(max(unsearched), 'unsearched', '')] AS kinds
        FROM log_lines_stored
        PREWHERE truncated OR unsearched
        GROUP BY source, program, host, datastore, vm, event_time, generation, offset, line_hash
    ),

    too_long AS
    (
        SELECT
            arrayJoin(arrayFilter(each -> each != '', kinds)) AS kind,
            host,
            source,
            toStartOfHour(event_time) AS hour,
            min(event_time) AS started_at,
            max(event_time) AS ended_at,
            count() AS count,
            groupArraySorted(3)(line) AS evidence,
            min(arrived_at) AS detected_at,
            line_run_id AS run_id
        FROM long_lines
        GROUP BY kind, host, source, hour, run_id
    ),

    rejected AS
    (
        SELECT
            -- flink-jobs/engine/failures.py writes this reason.
            if(startsWith(reason, 'detector '), 'detector_failed', 'rejected') AS kind,
            host,
            source,
            toStartOfHour(received_at) AS hour,
            reason,
            min(received_at) AS started_at,
            max(received_at) AS ended_at,
            count() AS count,
            groupArraySorted(3)(
                substring(if(kind = 'rejected', line, concat(reason, ': ', line)), 1, 1000)
            ) AS evidence,
            started_at AS detected_at,
            run_id
        FROM rejected_lines_stored FINAL
        GROUP BY host, source, hour, reason, run_id
    ),

    gaps AS
    (
        SELECT
            host,
            source,
            generation,
            coalesce(last_event_time, last_received_at) AS last_at,
            gap_bytes,
            arrayMap(
                gap -> concat(
                    file, ': bytes ', toString(gap.1), ' to ', toString(gap.2), ' did not arrive'
                ),
                arraySlice(gaps, 1, 20)
            ) AS evidence,
            last_received_at
        FROM coverage
        WHERE gap_bytes > 0
    ),

    clocks AS
    (
        SELECT
            host,
            source,
            hour,
            min(first_received_at) AS first_at,
            max(last_received_at) AS last_at,
            quantilesBFloat16Merge(0.1, 0.5, 0.9)(delays_s) AS delays,
            -- Constantly late by the same time.
            delays[2] > 60 AND delays[3] - delays[1] < 10 + delays[2] / 5 AS is_behind,
            uniqCombined64Merge(ahead_lines) AS ahead,
            min(ahead_first_at) AS ahead_from,
            max(ahead_last_at) AS ahead_to,
            groupUniqArrayMerge(3)(ahead_evidence) AS ahead_line,
            uniqCombined64Merge(late_lines) AS late,
            min(late_first_at) AS late_from,
            max(late_last_at) AS late_to,
            groupUniqArrayMerge(3)(late_evidence) AS late_line,
            uniqCombined64Merge(behind_lines) AS behind,
            groupUniqArrayMerge(3)(behind_evidence) AS behind_line,
            uniqCombined64Merge(doubted_lines) AS doubted,
            groupUniqArrayMerge(3)(doubted_evidence) AS doubted_line
        FROM source_clocks_stored
        GROUP BY host, source, hour
    ),

    (SELECT newest_line_s FROM limits) AS limit_s,

    -- The number of intervals with a line of any source, and the newest line.
    (SELECT (toInt64(uniqExact(bucket)), max(last_received_at)) FROM activity_intervals_stored) AS all_intervals,

    -- Intervals with lines of any source are numbered: while all are silent, no source counts as silent.
    intervals AS
    (
        SELECT
            bucket,
            row_number() OVER (ORDER BY bucket) AS number,
            min(first_received_at) AS first_at,
            max(last_received_at) AS last_at
        FROM activity_intervals_stored
        GROUP BY bucket
    ),

    -- The pipeline as a whole: until the next line, or until now.
    unheard AS
    (
        SELECT
            last_at AS from_at,
            leadInFrame(toNullable(first_at), 1, NULL) OVER (
                ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
            ) AS until_at,
            dateDiff('second', from_at, coalesce(until_at, now64(6, 'UTC'))) AS unheard_s
        FROM intervals
    ),

    counted AS
    (
        SELECT
            source,
            host,
            min(bucket_at) AS first_bucket,
            sum(heard_here) AS heard_in
        FROM
        (
            SELECT
                source,
                host,
                half_day,
                min(first_bucket) AS bucket_at,
                bitCount(groupBitOr(source_half_days_stored.intervals)) AS heard_here
            FROM source_half_days_stored
            GROUP BY source, host, half_day
        ) AS half_days
        GROUP BY source, host
    ),

    -- Sources without two missing intervals have no pause: few sources are left.
    paused AS
    (
        SELECT counted.source AS source, counted.host AS host
        FROM counted
        INNER JOIN intervals AS earliest ON counted.first_bucket = earliest.bucket
        WHERE all_intervals.1 >= earliest.number + counted.heard_in + 1
    ),

    heard AS
    (
        SELECT
            source,
            host,
            bucket,
            min(first_received_at) AS first_at,
            max(last_received_at) AS last_at
        FROM source_activity_stored
        WHERE (source, host) IN (SELECT source, host FROM paused)
        GROUP BY source, host, bucket
    ),

    pauses AS
    (
        SELECT
            heard.source AS source,
            heard.host AS host,
            heard.last_at AS last_at,
            intervals.number AS number,
            row_number() OVER source_before AS intervals_heard,
            toInt64(intervals.number)
            - lagInFrame(toInt64(intervals.number), 1, toInt64(intervals.number) - 1) OVER source_all
            - 1 AS missed_before,
            leadInFrame(toInt64(intervals.number), 1, -1) OVER source_all AS next_number,
            leadInFrame(toNullable(heard.first_at), 1, NULL) OVER source_all AS heard_again_at
        FROM heard
        INNER JOIN intervals ON heard.bucket = intervals.bucket
        WINDOW
            source_all AS (
                PARTITION BY heard.source, heard.host ORDER BY heard.bucket
                ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
            ),
            source_before AS (
                PARTITION BY heard.source, heard.host ORDER BY heard.bucket
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            )
    ),

    -- Longer than ten minutes, and much longer than any pause of this source within a day.
    silences AS
    (
        SELECT
            pauses.*,
            max(pauses.missed_before) OVER (
                PARTITION BY pauses.source, pauses.host ORDER BY pauses.number
                ROWS BETWEEN 288 PRECEDING AND CURRENT ROW
            ) AS usually_missed,
            if(pauses.next_number < 0, all_intervals.1 + 1, pauses.next_number) - toInt64(pauses.number) - 1 AS missed,
            coalesce(pauses.heard_again_at, all_intervals.2) AS until_at
        FROM pauses
    )

SELECT
    event_id,
    kind,
    host,
    source,
    started_at,
    ended_at,
    count,
    evidence,
    detected_at,
    run_id
FROM
(
    SELECT * FROM told
    UNION ALL
    SELECT
        reinterpretAsUUID(MD5(toString((kind, host, source, hour, run_id)))) AS event_id,
        kind, host, source, started_at, toNullable(ended_at) AS ended_at, count, evidence,
        toDateTime64(detected_at, 3, 'UTC') AS detected_at, run_id
    FROM too_long
    UNION ALL
    SELECT
        reinterpretAsUUID(MD5(toString((kind, host, source, hour, reason, run_id)))) AS event_id,
        kind, host, source, started_at, toNullable(ended_at) AS ended_at, count, evidence,
        toDateTime64(detected_at, 3, 'UTC') AS detected_at, run_id
    FROM rejected
    UNION ALL
    SELECT
        reinterpretAsUUID(MD5(toString(('gap', generation)))) AS event_id,
        'gap' AS kind, host, source, last_at AS started_at, toNullable(last_at) AS ended_at,
        toUInt64(assumeNotNull(gap_bytes)) AS count, evidence, toDateTime64(last_received_at, 3, 'UTC') AS detected_at,
        '' AS run_id
    FROM gaps
    UNION ALL
    SELECT
        reinterpretAsUUID(MD5(toString((oddity, host, source, hour)))) AS event_id,
        if(oddity = 'late', 'late', 'clock_skew') AS kind, host, source, assumeNotNull(from_at) AS started_at,
        to_at AS ended_at, odd_lines AS count, evidence,
        toDateTime64(if(oddity = 'ahead', started_at, first_at), 3, 'UTC') AS detected_at, 'live' AS run_id
    FROM clocks
    ARRAY JOIN
        ['ahead', 'behind', 'doubted', 'late'] AS oddity,
        [ahead_from, first_at, first_at, late_from] AS from_at,
        [ahead_to, last_at, last_at, late_to] AS to_at,
        [ahead, if(is_behind, behind, 0), doubted, if(is_behind, 0, late)] AS odd_lines,
        [ahead_line, behind_line, doubted_line, late_line] AS evidence
    WHERE odd_lines > 0
    UNION ALL
    SELECT
        reinterpretAsUUID(MD5(toString(('silent_source', host, source, last_at)))) AS event_id,
        'silent_source' AS kind, host, source, last_at AS started_at, heard_again_at AS ended_at,
        toUInt64(assumeNotNull(missed)) AS count, [] AS evidence,
        toDateTime64(last_at + INTERVAL 10 MINUTE, 3, 'UTC') AS detected_at, 'live' AS run_id
    FROM silences
    WHERE
        intervals_heard >= 2 AND missed >= 2 AND missed > 3 * usually_missed
        AND until_at > last_at + INTERVAL 10 MINUTE
    UNION ALL
    SELECT
        reinterpretAsUUID(MD5(toString(('no_live_lines', from_at)))) AS event_id,
        'no_live_lines' AS kind, '' AS host, '' AS source, from_at AS started_at, until_at AS ended_at,
        toUInt64(unheard_s) AS count, [] AS evidence,
        toDateTime64(from_at + toIntervalSecond(limit_s), 3, 'UTC') AS detected_at,
        'live' AS run_id
    FROM unheard
    WHERE unheard_s > limit_s
    UNION ALL
    SELECT
        reinterpretAsUUID(MD5(toString(('borrowed_name', host, peer)))) AS event_id,
        'borrowed_name' AS kind, host, 'syslog' AS source, last_heard_at AS started_at,
        toNullable(last_heard_at) AS ended_at, names AS count,
        [concat(peer, ' sent in its name; ', arrayStringConcat(owners, ', '), ' does, and in no other')] AS evidence,
        toDateTime64(last_heard_at, 3, 'UTC') AS detected_at, 'live' AS run_id
    FROM borrowed_names
) AS events;
