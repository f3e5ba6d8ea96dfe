-- One row is one VM and one LUN under its folder as one host saw it, from valid_from until valid_until. The
-- VM's storage is that of its log or its .vmx; a path may contain the name or the UUID of the datastore.
-- Hosts may each have a datastore of the same name: a name is resolved on the hosts that ran the VM, elsewhere only if
-- it is unique; an ambiguous VM is not shown. Without inventory, device is empty. Disks of the VM on other
-- datastores are not included.
CREATE OR REPLACE VIEW vm_storage
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    vms AS
    (
        SELECT
            seen.vm AS vm,
            seen.datastore AS volume,
            groupUniqArray(if(names.host = '', toString(seen.host), names.host)) AS ran_on
        FROM
        (
            SELECT vm, datastore, host
            FROM owners_seen_stored
            WHERE vm != ''
            UNION DISTINCT
            SELECT vm, datastore, host FROM stuns_stored
            UNION DISTINCT
            SELECT vm, datastore, host
            FROM inventory_stored
            WHERE kind = 'virtual_machine'
        ) AS seen
        LEFT JOIN host_aliases AS names ON seen.host = names.alias
        GROUP BY vm, volume
    ),

    luns AS
    (
        SELECT *, arrayJoin(arrayDistinct([datastore, datastore_uuid])) AS called
        FROM host_extents
        WHERE called != ''
    ),

    matched AS
    (
        SELECT
            *,
            groupUniqArrayIf(datastore_uuid, has(ran_on, host)) OVER (PARTITION BY vm, volume) AS own,
            groupUniqArray(datastore_uuid) OVER (PARTITION BY vm, volume) AS any_hosts
        FROM vms
        LEFT JOIN luns ON vms.volume = luns.called
    )

SELECT
    toString(vm) AS vm,
    if(matched.datastore = '', toString(volume), matched.datastore) AS datastore,
    datastore_uuid,
    host,
    device,
    observed_at,
    valid_from,
    valid_until
FROM matched
WHERE if(empty(own), length(any_hosts) = 1, has(own, datastore_uuid));
