-- One row is one stun, or one stun of 7, 14, 21 or 28 days earlier at the time of the later day, shown_at:
-- weeks_before is 0 for the stun itself. So every range of time also has the stuns of the same weekdays of
-- the four weeks before, at the same time of the site's day if its clock has changed since. weeks_known: how many
-- of these weeks the stored stuns reach back to, at most four. share: what a stun adds to the usual number, which
-- is the average over the known weeks.
CREATE OR REPLACE VIEW stuns_and_usual
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    assumeNotNull((SELECT min(ended_at) FROM stuns_by_time_stored)) AS first_at,

    moved AS
    (
        SELECT ended_at AS shown_at, 0 AS weeks_before, *
        FROM stuns_by_time
        UNION ALL
        SELECT
            toTimeZone(toTimeZone(ended_at, '{site_timezone}') + INTERVAL 7 DAY, 'UTC') AS shown_at,
            1 AS weeks_before, *
        FROM stuns_by_time
        UNION ALL
        SELECT
            toTimeZone(toTimeZone(ended_at, '{site_timezone}') + INTERVAL 14 DAY, 'UTC') AS shown_at,
            2 AS weeks_before, *
        FROM stuns_by_time
        UNION ALL
        SELECT
            toTimeZone(toTimeZone(ended_at, '{site_timezone}') + INTERVAL 21 DAY, 'UTC') AS shown_at,
            3 AS weeks_before, *
        FROM stuns_by_time
        UNION ALL
        SELECT
            toTimeZone(toTimeZone(ended_at, '{site_timezone}') + INTERVAL 28 DAY, 'UTC') AS shown_at,
            4 AS weeks_before, *
        FROM stuns_by_time
    )

SELECT
    shown_at,
    weeks_before,
    -- A change of the clock shortens a week by an hour.
    toUInt8(least(4, intDiv(dateDiff('second', first_at, shown_at) + 7200, 604800))) AS weeks_known,
    if(weeks_before = 0, 0, 1 / weeks_known) AS share,
    host,
    vm,
    datastore,
    cause,
    severity,
    duration_s
FROM moved
-- Future weeks have no stuns of their own yet.
WHERE shown_at <= (SELECT as_of FROM fleet_clock);
