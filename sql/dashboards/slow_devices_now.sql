-- One row is one episode of a device above its threshold that goes on or ended in the last hour; see
-- fleet_clock. One that began more than a day before is not taken for going on.
CREATE OR REPLACE VIEW slow_devices_now AS
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
    AND metric != 'kavg' AND object_class = 'scsi_device'
SETTINGS do_not_merge_across_partitions_select_final = 1;
