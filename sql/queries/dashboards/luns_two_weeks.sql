-- One row is one hour of one LUN in the last 14 days. week is 'last 7 days' or 'the 7 days before'; see
-- fleet_clock for the reference time.
CREATE OR REPLACE VIEW luns_two_weeks
DEFINER = transform SQL SECURITY DEFINER AS
WITH (SELECT as_of FROM fleet_clock) AS as_of
SELECT
    hour,
    device,
    array,
    datastore,
    worst_davg_ms,
    if(hour > as_of - INTERVAL 7 DAY, 'last 7 days', 'the 7 days before') AS week
FROM lun_hours
WHERE hour > as_of - INTERVAL 14 DAY AND hour <= as_of;
