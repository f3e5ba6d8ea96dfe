-- One row is one incident and one VM, datastore, device or host of it; the columns of the other kinds are
-- empty.
CREATE OR REPLACE VIEW incident_names
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    incident_id,
    opened_at,
    closed_at,
    state,
    severity,
    scope,
    verdict,
    stun_count,
    arrayJoin(arrayConcat(
        arrayMap(each -> ('vm', each), vms),
        arrayMap(each -> ('datastore', each), datastores),
        arrayMap(each -> ('device', each), devices),
        arrayMap(each -> ('host', each), hosts)
    )) AS named,
    named.1 AS kind,
    if(kind = 'vm', named.2, '') AS vm,
    if(kind = 'datastore', named.2, '') AS datastore,
    if(kind = 'device', named.2, '') AS device,
    if(kind = 'host', named.2, '') AS host
FROM incidents;
