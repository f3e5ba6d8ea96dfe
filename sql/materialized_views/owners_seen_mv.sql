-- The names of hosts and VMs in lines: one row per name in a block of lines.
CREATE MATERIALIZED VIEW IF NOT EXISTS owners_seen_mv TO owners_seen_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    host,
    if(source = 'vmware_log', datastore, '') AS datastore,
    if(source = 'vmware_log', vm, '') AS vm,
    peer,
    max(assumeNotNull(received)) AS seen_at
FROM records
WHERE fault = '' AND kind = 'line' AND (host != '' OR vm != '')
GROUP BY ALL;
