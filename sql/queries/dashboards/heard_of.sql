-- One row is one host or VM that is in the inventory or has ever sent lines. is_heard: lines in the last 24
-- hours; see heard_at and fleet_clock. An idle VM may log nothing for days; a host always logs something.
CREATE OR REPLACE VIEW heard_of
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    if(heard.what = 'vm', 'VMs', 'hosts') AS what,
    name,
    host,
    if(heard.what = 'vm', name, '') AS vm,
    datastore,
    last_listed_at,
    last_heard_at,
    is_in_inventory,
    is_heard
FROM heard_at(until = '2100-01-01', hours = 24) AS heard;
