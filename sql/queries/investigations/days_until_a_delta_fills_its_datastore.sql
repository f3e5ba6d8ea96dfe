-- In how many days will open snapshots fill their datastores?
-- A delta grows as fast as earlier deltas of the VM: the size at a removal divided by the age. All open deltas
-- of a datastore grow at once. Logs do not contain the free space of a datastore: give it as free_gib.
-- Without it, the size of the LUNs in the inventory counts, and the true number is smaller.
-- param datastore = : part of the datastore's name
-- param vm = : part of the VM's name
-- param free_gib = : free space on the datastore now, GiB
-- param hours = 24 : smallest age of a snapshot, hours
-- param until = 2100-01-01 : as of this time, UTC; by default now, or the newest event if all logs were replayed
-- param most = 20 : number of rows
WITH
    if(
        {until:DateTime64(6, 'UTC')} > now64(6, 'UTC'), (SELECT as_of FROM fleet_clock), {until:DateTime64(6, 'UTC')}
    ) AS until_at,

    grown AS
    (
        SELECT
            datastore, vm,
            argMin(name, started_at) AS oldest_name,
            min(started_at) AS oldest_at,
            any(open_at_least) AS snapshots_open,
            any(grows_bytes_per_second) AS bytes_per_second
        FROM open_snapshots_at(until = {until:String}, vm = {vm:String}, datastore = {datastore:String})
        GROUP BY datastore, vm
        HAVING oldest_at <= until_at - toIntervalHour({hours:UInt32})
    ),

    sizes AS
    (
        SELECT called, sum(size_mb) / 1024 AS gib
        FROM
        (
            SELECT DISTINCT
                arrayJoin(arrayDistinct([datastore, datastore_uuid])) AS called,
                datastore_uuid, device, size_mb
            FROM inventory
            WHERE isNull(valid_until) AND datastore != '' AND size_mb > 0
        ) AS extents
        GROUP BY called
        -- Every host may have a datastore1 of its own: then the name has no size.
        HAVING uniqExact(datastore_uuid) = 1
    )

SELECT
    grown.datastore AS datastore,
    vm,
    oldest_name AS name,
    oldest_at AS created_at,
    round(dateDiff('second', oldest_at, until_at) / 86400, 1) AS age_days,
    snapshots_open AS open_at_least,
    round(bytes_per_second * 86400 / 1073741824, 2) AS grows_gib_per_day,
    round(age_days * grows_gib_per_day, 1) AS delta_gib_by_now,
    round(sum(grows_gib_per_day) OVER (PARTITION BY grown.datastore), 2) AS datastore_grows_gib_per_day,
    coalesce(toFloat64OrNull({free_gib:String}), sizes.gib) AS space_gib,
    multiIf(
        {free_gib:String} != '', 'given free space',
        sizes.gib > 0, 'size of the datastore, at most',
        'unknown: give free_gib'
    ) AS space_is,
    if(space_gib > 0, round(space_gib / datastore_grows_gib_per_day, 1), NULL) AS days_until_full
FROM grown
LEFT JOIN sizes ON grown.datastore = sizes.called
ORDER BY days_until_full ASC NULLS LAST, age_days DESC, vm ASC
LIMIT {most:UInt32};
