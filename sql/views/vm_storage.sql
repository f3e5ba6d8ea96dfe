-- One row is one VM and one LUN under its folder as one host saw it, from valid_from up to valid_until.
-- The VM lives where its log lies, or its .vmx; a path may call the datastore by name or by UUID.
-- Every host may have a datastore1 of its own: a name is looked up on the hosts that ran the VM, and
-- elsewhere only if it is one datastore's; if it is several hosts', the VM is not shown. Without any
-- inventory of it device is empty. A VM's disks on other datastores are not looked at.
CREATE OR REPLACE VIEW vm_storage AS
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
