-- Which hosts send far more lines than others, became silent, or lost lines?
-- noisy: `times` as many lines as the median host of that source. silent: live lines in the last 30 days,
-- none in the time span, while others sent lines. lossy: its log reports missing lines, or lines were
-- rejected.
-- param minutes = 60 : minutes to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last line
-- param times = 10 : multiple of the median from which a host is noisy
-- param host = : part of the host's name
-- param most = 50 : number of rows
WITH
    least(
        {until:DateTime64(6, 'UTC')},
        greatest(
            (
                -- The order, unlike max, uses the index of times: it reads a few granules.
                SELECT event_time
                FROM log_lines_stored
                WHERE event_time <= now64(6, 'UTC')
                ORDER BY event_time DESC
                LIMIT 1
            ),
            (SELECT max(last_received_at) FROM source_half_days_stored)
        ),
        now64(6, 'UTC')
    ) AS until_at,
    until_at - toIntervalMinute({minutes:UInt32}) AS from_at,

    written AS
    (
        SELECT source, host, count() AS lines, median(count()) OVER (PARTITION BY source) AS usual_lines
        FROM log_lines_stored FINAL
        PREWHERE event_time > from_at AND event_time <= until_at
        WHERE host != ''
        GROUP BY source, host
    ),

    heard AS
    (
        SELECT source, host, max(last_at) AS heard_at
        FROM
        (
            SELECT source, host, last_received_at AS last_at
            FROM source_half_days_stored
            WHERE half_day < toStartOfInterval(until_at, INTERVAL 12 HOUR)
            UNION ALL
            SELECT source, host, last_received_at AS last_at
            FROM source_activity_stored
            WHERE bucket >= toStartOfInterval(until_at, INTERVAL 12 HOUR) AND bucket <= until_at
        ) AS arrivals
        GROUP BY source, host
    ),

    lost AS
    (
        SELECT source, host, sum(losses) AS losses
        FROM
        (
            SELECT source, host, quality_events_stored.count AS losses
            FROM quality_events_stored FINAL
            PREWHERE started_at > from_at AND started_at <= until_at
            UNION ALL
            SELECT source, host, 1 AS losses
            FROM rejected_lines_stored FINAL
            PREWHERE received_at > from_at AND received_at <= until_at
        ) AS each_loss
        WHERE host != ''
        GROUP BY source, host
    ),

    sources AS
    (
        SELECT
            source, host,
            sum(written_lines) AS lines,
            max(usual) AS usual_lines,
            max(heard_at) AS last_heard_at,
            sum(lost_lines) AS losses
        FROM
        (
            SELECT
                source, host, lines AS written_lines, usual_lines AS usual,
                NULL AS heard_at, 0 AS lost_lines -- noqa: AL03
            FROM written
            UNION ALL
            SELECT source, host, 0 AS written_lines, 0 AS usual, heard_at, 0 AS lost_lines
            FROM heard
            UNION ALL
            SELECT source, host, 0 AS written_lines, 0 AS usual, NULL AS heard_at, losses AS lost_lines
            FROM lost
        ) AS facts
        GROUP BY source, host
    )

SELECT
    host,
    source,
    multiIf(
        lines >= {times:Float64} * usual_lines AND lines > 0, 'noisy',
        lines = 0 AND last_heard_at <= from_at, 'silent',
        losses > 0, 'lossy',
        ''
    ) AS is_what,
    lines,
    round(lines / nullIf(usual_lines, 0), 1) AS times_usual,
    round(100 * lines / nullIf(sum(lines) OVER (), 0), 1) AS share_percent,
    last_heard_at,
    if(is_what = 'silent', dateDiff('minute', last_heard_at, until_at), NULL) AS silent_minutes,
    losses
FROM sources
QUALIFY is_what != '' AND positionCaseInsensitive(host, {host:String}) > 0
ORDER BY is_what = 'silent' DESC, lines DESC, losses DESC, last_heard_at DESC, host ASC, source ASC
LIMIT {most:UInt32};
