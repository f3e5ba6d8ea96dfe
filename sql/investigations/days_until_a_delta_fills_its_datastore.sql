-- How many days until snapshots that were left open fill their datastores?
-- A delta grows as fast as this VM's deltas grew before: the size that a removal found, by its age.
-- All open deltas of a datastore grow at once. No log tells what is free on a datastore: give it as
-- free_gib, or the whole size of its LUNs, from inventory, is taken, and the true number is smaller.
-- param datastore = : part of the datastore's name
-- param vm = : part of the VM's name
-- param free_gib = : what is free on the datastore now, GiB
-- param hours = 24 : how old a snapshot must be at least
-- param until = 2100-01-01 : as of when, UTC; now at the latest
-- param most = 20 : how many rows
WITH
    least({until:DateTime64(6, 'UTC')}, now64(6, 'UTC')) AS until_at,

    -- Whatever may be open: something was created after the last removal that went well, or that
    -- removal did not after all.
    suspects AS
    (
        SELECT datastore, vm
        FROM snapshot_operations_stored
        WHERE
            started_at <= until_at
            AND positionCaseInsensitive(vm, {vm:String}) > 0
            AND positionCaseInsensitive(datastore, {datastore:String}) > 0
        GROUP BY datastore, vm
        HAVING
            maxIf(started_at, kind != 'remove')
            > (maxIf(started_at, kind = 'remove' AND outcome = 'ok' AND NOT is_deleted) AS removed_at)
            OR maxIf(started_at, kind = 'remove' AND (outcome = 'failed' OR is_deleted)) >= removed_at
    ),

    operations AS
    (
        SELECT
            datastore, vm, kind, name, outcome, started_at, ended_at, delta_bytes,
            max(if(kind != 'remove' AND outcome = 'ok', started_at, toDateTime64(0, 6, 'UTC'))) OVER (
                PARTITION BY datastore, vm ORDER BY started_at
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS created_before_at
        FROM snapshot_operations
        WHERE (datastore, vm) IN (SELECT datastore, vm FROM suspects) AND started_at <= until_at
    ),

    grown AS
    (
        SELECT
            datastore, vm,
            maxIf(started_at, kind = 'remove' AND outcome = 'ok') AS last_removed_at,
            quantileExactIf(0.5)(
                delta_bytes / dateDiff('second', created_before_at, started_at),
                kind = 'remove' AND delta_bytes > 0
                AND created_before_at > toDateTime64(0, 6, 'UTC') AND started_at > created_before_at
            ) AS bytes_per_second,
            argMinIf(
                name, started_at, kind != 'remove' AND outcome = 'ok' AND started_at > last_removed
            ) AS oldest_name,
            minIf(started_at, kind != 'remove' AND outcome = 'ok' AND started_at > last_removed) AS oldest_at
        FROM
        (
            SELECT
                *,
                max(if(kind = 'remove' AND outcome = 'ok', started_at, toDateTime64(0, 6, 'UTC')))
                    OVER (PARTITION BY datastore, vm) AS last_removed
            FROM operations
        ) AS each_operation
        GROUP BY datastore, vm
        HAVING
            oldest_at > toDateTime64(0, 6, 'UTC')
            AND oldest_at <= until_at - toIntervalHour({hours:UInt32})
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
    if(isFinite(bytes_per_second), round(bytes_per_second * 86400 / 1073741824, 2), NULL) AS grows_gib_per_day,
    round(age_days * grows_gib_per_day, 1) AS delta_gib_by_now,
    round(sum(grows_gib_per_day) OVER (PARTITION BY grown.datastore), 2) AS datastore_grows_gib_per_day,
    coalesce(toFloat64OrNull({free_gib:String}), sizes.gib) AS space_gib,
    multiIf(
        {free_gib:String} != '', 'free, as given',
        sizes.gib > 0, 'the whole datastore: at most',
        'unknown: give free_gib'
    ) AS space_is,
    if(space_gib > 0, round(space_gib / datastore_grows_gib_per_day, 1), NULL) AS days_until_full
FROM grown
LEFT JOIN sizes ON grown.datastore = sizes.called
ORDER BY days_until_full ASC NULLS LAST, age_days DESC, vm ASC
LIMIT {most:UInt32};
