-- Which hosts and VMs are in the inventory but sent no lines in the last 24 hours?
-- A host always logs something. An idle VM may log nothing for days: check whole datastores first. A VM counts
-- if the last list of running VMs of its host contains it. Only the newest time is known: for a past time,
-- hosts that sent lines later have no time.
-- param hours = 24 : hours of silence
-- param until = 2100-01-01 : as of this time, UTC; by default now (of replayed logs alone, any lines count)
-- param most = 100 : number of rows
SELECT
    what,
    name,
    datastore,
    host,
    last_listed_at AS listed_at,
    last_heard_at,
    silent_hours
FROM heard_at(until = toString({until:DateTime64(3, 'UTC')}), hours = {hours:UInt32})
WHERE is_in_inventory AND NOT is_heard
ORDER BY what ASC, silent_hours DESC NULLS FIRST, name ASC
LIMIT {most:UInt32};
