-- One row is one episode of a device above its threshold that is open or ended in the last hour; see
-- fleet_clock. An episode that began more than a day earlier does not count as open.
CREATE OR REPLACE VIEW slow_devices_now
DEFINER = transform SQL SECURITY DEFINER AS
WITH (SELECT as_of FROM fleet_clock) AS as_of
SELECT
    event_id,
    host,
    device,
    kind,
    origin,
    started_at,
    ended_at,
    peak_ms,
    threshold_ms
FROM latency_episodes_stored FINAL
WHERE
    started_at <= as_of AND started_at > as_of - INTERVAL 1 DAY
    AND coalesce(ended_at, as_of) > as_of - INTERVAL 1 HOUR
    AND metric != 'kavg' AND object_class IN ('scsi_device', 'disk')
SETTINGS do_not_merge_across_partitions_select_final = 1;
