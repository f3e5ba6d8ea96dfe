-- One row is one LUN: its slowest minute on any host in this hour or the one before; see fleet_clock. Local
-- disks are left out. name: the datastore, or the device where no inventory names the datastore.
CREATE OR REPLACE VIEW slowest_luns_now
DEFINER = transform SQL SECURITY DEFINER AS
WITH (SELECT as_of FROM fleet_clock) AS as_of
SELECT
    device,
    if(datastore = '', device, datastore) AS name,
    argMax(host, worst_davg_ms) AS host,
    max(hour) AS newest_hour,
    round(max(worst_davg_ms), 1) AS davg_ms
FROM latency_hours
WHERE hour >= toStartOfHour(as_of - INTERVAL 1 HOUR) AND hour <= as_of AND NOT is_local
GROUP BY device, datastore
HAVING isNotNull(davg_ms);
