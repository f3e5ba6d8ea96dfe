-- One row is one stun of the last 14 days. week is 'last 7 days' or 'the 7 days before'; see fleet_clock for
-- the reference time.
CREATE OR REPLACE VIEW stuns_two_weeks
DEFINER = transform SQL SECURITY DEFINER AS
WITH (SELECT as_of FROM fleet_clock) AS as_of
SELECT
    ended_at,
    host,
    vm,
    datastore,
    cause,
    severity,
    duration_s,
    if(ended_at > as_of - INTERVAL 7 DAY, 'last 7 days', 'the 7 days before') AS week
FROM stuns_by_time
WHERE ended_at > as_of - INTERVAL 14 DAY AND ended_at <= as_of;
