-- One row is one hour of one LUN: the average DAVG and KAVG of its slowest minute on any host. Local disks are
-- not LUNs.
CREATE OR REPLACE VIEW lun_hours
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    hour,
    device,
    if(array = '', 'unknown', array) AS array,
    datastore,
    max(latency_hours.worst_davg_ms) AS worst_davg_ms,
    max(latency_hours.worst_kavg_ms) AS worst_kavg_ms
FROM latency_hours
WHERE NOT is_local
GROUP BY hour, device, array, datastore
HAVING isNotNull(worst_davg_ms);
