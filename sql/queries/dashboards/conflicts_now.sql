-- One row is one unexpected reservation conflict of the last hour; see fleet_clock.
CREATE OR REPLACE VIEW conflicts_now
DEFINER = transform SQL SECURITY DEFINER AS
WITH (SELECT as_of FROM fleet_clock) AS as_of
SELECT
    event_id,
    host,
    device,
    path,
    datastore,
    dialect,
    outcome,
    started_at,
    ended_at,
    is_stuck
FROM reservation_conflicts_stored FINAL
WHERE ended_at > as_of - INTERVAL 1 HOUR AND started_at <= as_of AND NOT is_expected
SETTINGS do_not_merge_across_partitions_select_final = 1;
