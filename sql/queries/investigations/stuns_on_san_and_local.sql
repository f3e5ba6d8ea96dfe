-- Are VMs on the SAN stunned longer than those on local disks?
-- Short stuns on local disks and long stuns on the SAN point to the array.
-- One row is one cause on one kind of storage: san, local, or unknown if the inventory has no disk of the
-- datastore (or both kinds under one name).
-- param days = 30 : days to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last stun
-- param vm = : part of the VM's name
WITH
    least({until:DateTime64(6, 'UTC')}, (SELECT max(ended_at) FROM stuns_stored), now64(6, 'UTC')) AS until_at,

    volumes AS
    (
        SELECT
            arrayJoin(arrayDistinct([datastore, datastore_uuid])) AS called,
            if(uniqExact(datastore_uuid) = 1, any(datastore_uuid), called) AS identity,
            multiIf(uniqExact(is_local) > 1, 'unknown', any(is_local), 'local', 'san') AS storage
        FROM inventory
        WHERE isNotNull(is_local) AND called != ''
        GROUP BY called
    )

SELECT
    cause,
    if(volumes.storage = '', 'unknown', volumes.storage) AS storage,
    count() AS stuns,
    uniqExact(if(identity = '', datastore, identity) AS volume) AS datastores,
    uniqExact((volume, vm)) AS vms,
    round(quantileExact(0.5)(duration_us) / 1e6, 3) AS p50_s,
    round(quantileExact(0.99)(duration_us) / 1e6, 3) AS p99_s,
    round(max(duration_us) / 1e6, 3) AS worst_s
FROM
(
    SELECT cause, toString(datastore) AS datastore, vm, duration_us
    FROM stuns_stored FINAL
    PREWHERE ended_at > until_at - toIntervalDay({days:UInt32}) AND ended_at <= until_at
    WHERE positionCaseInsensitive(vm, {vm:String}) > 0
) AS stuns
LEFT JOIN volumes ON stuns.datastore = volumes.called
GROUP BY cause, storage
ORDER BY cause ASC, worst_s DESC, storage ASC
SETTINGS do_not_merge_across_partitions_select_final = 1;
