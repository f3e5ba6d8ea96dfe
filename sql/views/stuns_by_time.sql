-- One row is one stun, as in `stuns`, with fewer columns and fast to filter by time. evidence_lines holds
-- the lines of evidence as one text; it is read only for the rows that ORDER BY … LIMIT leaves. hour_of_day
-- and weekday are those of the site's time zone at that time, with its daylight saving time; see site.
CREATE OR REPLACE VIEW stuns_by_time
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    host,
    vm,
    datastore,
    ended_at,
    duration_us,
    duration_us / 1000000 AS duration_s,
    cause,
    severity,
    toHour(ended_at, '{site_timezone}') AS hour_of_day,
    CAST(
        toDayOfWeek(ended_at, 0, '{site_timezone}')
        AS Enum8('1 Mon' = 1, '2 Tue' = 2, '3 Wed' = 3, '4 Thu' = 4, '5 Fri' = 5, '6 Sat' = 6, '7 Sun' = 7)
    ) AS weekday,
    CAST(
        multiIf(
            duration_us <= 50000, 1, duration_us <= 100000, 2, duration_us <= 200000, 3,
            duration_us <= 500000, 4, duration_us <= 1000000, 5, duration_us <= 2000000, 6,
            duration_us <= 5000000, 7, duration_us <= 20000000, 8, duration_us <= 60000000, 9, 10
        )
        AS Enum8(
            '1  up to 50 ms' = 1, '2  to 100 ms' = 2, '3  to 200 ms' = 3, '4  to 500 ms' = 4, '5  to 1 s' = 5,
            '6  to 2 s' = 6, '7  to 5 s' = 7, '8  to 20 s' = 8, '9  to a minute' = 9, 'over a minute' = 10
        )
    ) AS duration_class,
    run_id,
    arrayStringConcat(evidence, '\n') AS evidence_lines
FROM stuns_by_time_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
