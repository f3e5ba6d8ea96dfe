-- One row is one count-down of retries (sync_cr), one episode of refused commands of a device
-- (device_status) or one episode of long reservations of a volume (long_reservation).
-- The column device is a LUN, path a path to it, datastore a volume. If its lines name only one of them,
-- inventory adds the others, if it has one answer: the LUN of this host's path, the LUN of the datastore, the
-- datastore of the LUN. The lines of a count-down that recovered name none.
CREATE OR REPLACE VIEW reservation_conflicts
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    conflicts AS
    (
        SELECT
            * EXCEPT (device, path, datastore),
            -- Rows of earlier versions have the names of paths and volumes in `device`.
            if(datastore = '' AND dialect = 'long_reservation', toString(device), toString(datastore)) AS volume,
            volume = '' AND match(device, '^(naa|eui|t10|mpx|vml)[.]') AS is_lun,
            if(is_lun, toString(device), '') AS lun,
            if(path = '' AND NOT is_lun AND volume = '', toString(device), toString(path)) AS named_path,
            -- ESX 3 writes vmhba1:0:7 for vmhba1:C0:T0:L7.
            replaceRegexpOne(
                named_path, '^(vmhba[0-9]{1,4}):([0-9]{1,4}):([0-9]{1,4})$', '\\1:C0:T\\2:L\\3'
            ) AS runtime_name
        FROM reservation_conflicts_stored FINAL
    ),

    -- Few conflicts have a path: they are read without FINAL.
    named_paths AS
    (
        SELECT
            replaceRegexpOne(
                called, '^(vmhba[0-9]{1,4}):([0-9]{1,4}):([0-9]{1,4})$', '\\1:C0:T\\2:L\\3'
            ) AS runtime_name
        FROM
        (
            SELECT DISTINCT toString(path) AS called
            FROM reservation_conflicts_stored
            WHERE path != ''
            UNION DISTINCT
            SELECT DISTINCT toString(device) AS called
            FROM reservation_conflicts_stored
            WHERE startsWith(device, 'vmhba')
        ) AS names
    ),

    luns_of_paths AS
    (
        SELECT
            on_host,
            arrayJoin(paths) AS known_path,
            any(known_lun) AS path_lun
        FROM
        (
            SELECT
                arrayJoin(arrayDistinct([toString(item.host), if(names.host = '', toString(item.host), names.host)]))
                    AS on_host,
                toString(item.device) AS known_lun,
                item.paths AS paths
            FROM inventory_stored AS item
            LEFT JOIN host_aliases AS names ON item.host = names.alias
            WHERE item.kind = 'device' AND item.device != '' AND NOT item.is_deleted
        ) AS devices
        GROUP BY on_host, known_path
        HAVING uniqExact(known_lun) = 1 AND known_path IN (SELECT runtime_name FROM named_paths)
    ),

    -- Without host_aliases: ClickHouse plans that view again for each use.
    extents AS
    (
        SELECT DISTINCT
            toString(device) AS lun,
            toString(datastore) AS datastore
        FROM inventory_stored
        WHERE kind = 'extent' AND device != '' AND datastore != '' AND NOT is_deleted
    ),

    luns_of_datastores AS
    (
        SELECT
            datastore AS lun_datastore,
            any(lun) AS datastore_lun
        FROM extents
        GROUP BY datastore
        HAVING count() = 1
    ),

    datastores_of_luns AS
    (
        SELECT
            lun AS datastore_of,
            any(datastore) AS lun_datastore
        FROM extents
        GROUP BY lun
        HAVING count() = 1
    ),

    with_luns AS
    (
        SELECT
            conflicts.*,
            multiIf(
                lun != '', lun,
                by_path.path_lun != '', by_path.path_lun,
                by_datastore.datastore_lun
            ) AS found_lun
        FROM conflicts
        LEFT JOIN luns_of_paths AS by_path
            ON conflicts.host = by_path.on_host AND conflicts.runtime_name = by_path.known_path
        LEFT JOIN luns_of_datastores AS by_datastore ON conflicts.volume = by_datastore.lun_datastore
    )

SELECT
    event_id,
    host,
    world_id,
    opcode,
    first_remaining,
    last_remaining,
    steps,
    started_at,
    ended_at,
    duration_ms,
    eta_ms,
    outcome,
    found_lun AS device,
    named_path AS path,
    if(volume = '', by_lun.lun_datastore, volume) AS datastore,
    dialect,
    is_stuck,
    is_expected,
    evidence,
    detected_at,
    run_id
FROM with_luns
LEFT JOIN datastores_of_luns AS by_lun ON with_luns.found_lun = by_lun.datastore_of
SETTINGS do_not_merge_across_partitions_select_final = 1;
