-- One row is one name for the filters of the dashboards: a host, VM, datastore or device (the other columns
-- are empty).
CREATE OR REPLACE VIEW fleet_names
DEFINER = transform SQL SECURITY DEFINER AS
SELECT toString(host) AS host, '' AS vm, '' AS datastore, '' AS device, max(seen_at) AS seen_at
FROM owners_seen_stored
WHERE host != ''
GROUP BY host
UNION ALL
SELECT '' AS host, toString(vm) AS vm, toString(datastore) AS datastore, '' AS device, max(seen_at) AS seen_at
FROM owners_seen_stored
WHERE vm != ''
GROUP BY vm, datastore
UNION ALL
SELECT '' AS host, '' AS vm, '' AS datastore, device, toDateTime64(max(last_at), 3, 'UTC') AS seen_at
FROM
(
    SELECT toString(device) AS device, max(observed_at) AS last_at
    FROM inventory_stored
    WHERE kind IN ('device', 'extent')
    GROUP BY device
    UNION ALL
    SELECT toString(device) AS device, max(week) AS last_at
    FROM latency_baselines_stored
    WHERE object_class = 'scsi_device'
    GROUP BY device
    UNION ALL
    SELECT toString(device) AS device, max(ended_at) AS last_at
    FROM reservation_conflicts_stored
    GROUP BY device
) AS devices
WHERE device != ''
GROUP BY device;
