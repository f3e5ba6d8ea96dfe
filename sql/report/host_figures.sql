-- How many hosts were heard in the hour before, and how many are affected?
SELECT
    reporting_hosts,
    length(hosts) AS affected_hosts,
    length(devices) AS affected_devices,
    length(datastores) AS affected_datastores,
    length(vms) AS affected_vms
FROM incidents
WHERE incident_id = {incident:UUID};
