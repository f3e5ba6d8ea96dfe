-- What changed in the 72 hours before an incident?
-- told_by: `noted` (stunwatch change), `inventory` (differs from the host's previous inventory; the
-- change is older than the new inventory) or `paths` (first losses of the
-- hosts concerned). concerns: the hosts, LUNs or datastores of the incident, all, or others. The report of the
-- incident lists the same changes, and those during the incident.
-- param incident = : its id or the beginning of it; the latest incident where empty
-- param hours = 72 : how far to look before it
-- param most = 50 : how many rows
SELECT
    hours_before,
    near.at AS at,
    told_by,
    kind,
    what,
    length(near.hosts) AS hosts,
    arraySlice(arraySort(near.hosts), 1, 5) AS some_hosts,
    length(near.devices) AS devices,
    arraySlice(arraySort(near.devices), 1, 5) AS some_devices,
    concerns
FROM changes_near(incident = {incident:String}, hours = {hours:UInt32}, until = '') AS near
ORDER BY at DESC, told_by ASC, kind ASC, what ASC
LIMIT {most:UInt32};
