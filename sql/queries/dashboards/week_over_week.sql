-- One row is one measure of the fleet in the last 7 days and in the 7 days before; see fleet_clock for the
-- reference time. place is the order of the rows. change_percent is empty if there was nothing before. A
-- LUN-hour is slow if the average DAVG of its slowest minute was above 25 ms.
CREATE OR REPLACE VIEW week_over_week
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    (SELECT as_of FROM fleet_clock) AS as_of,

    (
        SELECT [
            (1, 'stuns', toFloat64(countIf(week = 'last 7 days')), toFloat64(countIf(week != 'last 7 days'))),
            (
                2, 'VMs stunned',
                toFloat64(uniqExactIf((datastore, vm), week = 'last 7 days')),
                toFloat64(uniqExactIf((datastore, vm), week != 'last 7 days'))
            ),
            (
                3, 'stuns over 1 s',
                toFloat64(countIf(duration_s > 1 AND week = 'last 7 days')),
                toFloat64(countIf(duration_s > 1 AND week != 'last 7 days'))
            ),
            (
                4, 'longest stun, s',
                toFloat64(maxIf(duration_s, week = 'last 7 days')),
                toFloat64(maxIf(duration_s, week != 'last 7 days'))
            ),
            (
                5, 'total stun time, s',
                toFloat64(sumIf(duration_s, week = 'last 7 days')),
                toFloat64(sumIf(duration_s, week != 'last 7 days'))
            )
        ]
        FROM stuns_two_weeks
    ) AS of_stuns,

    (
        SELECT [
            (
                6, 'slow LUN-hours, %',
                100 * countIf(worst_davg_ms > 25 AND week = 'last 7 days') / countIf(week = 'last 7 days'),
                100 * countIf(worst_davg_ms > 25 AND week != 'last 7 days') / countIf(week != 'last 7 days')
            )
        ]
        FROM luns_two_weeks
    ) AS of_luns,

    (
        SELECT [
            (
                7, 'reservation conflicts',
                toFloat64(countIf(started_at > as_of - INTERVAL 7 DAY)),
                toFloat64(countIf(started_at <= as_of - INTERVAL 7 DAY))
            )
        ]
        FROM reservation_conflicts_stored FINAL
        WHERE started_at > as_of - INTERVAL 14 DAY AND started_at <= as_of AND NOT is_expected
        SETTINGS do_not_merge_across_partitions_select_final = 1
    ) AS of_conflicts,

    (
        SELECT [
            (
                8, 'incidents',
                toFloat64(countIf(opened_at > as_of - INTERVAL 7 DAY)),
                toFloat64(countIf(opened_at <= as_of - INTERVAL 7 DAY))
            )
        ]
        FROM incidents
        WHERE opened_at > as_of - INTERVAL 14 DAY AND opened_at <= as_of
    ) AS of_incidents

SELECT
    as_of AS until,
    measured.1 AS place,
    measured.2 AS measure,
    if(isFinite(measured.3), round(measured.3, 3), NULL) AS last_7_days,
    if(isFinite(measured.4), round(measured.4, 3), NULL) AS before,
    if(before > 0, round(100 * (last_7_days - before) / before, 1), NULL) AS change_percent
FROM
(
    SELECT arrayJoin(arrayConcat(of_stuns, of_luns, of_conflicts, of_incidents)) AS measured
) AS measures;
