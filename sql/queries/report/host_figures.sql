-- Hosts that sent logs in the hour before, and affected hosts
SELECT
    reporting_hosts,
    length(hosts) AS affected_hosts,
    length(devices) AS affected_devices,
    length(datastores) AS affected_datastores,
    length(vms) AS affected_vms
FROM incidents
WHERE incident_id = {incident:UUID};
