-- One row is one host or VM that is in the inventory or has ever sent lines, as of a time:
--   SELECT * FROM heard_at(until = '2024-03-10 06:00:00', hours = 24)
-- An until in the future is the reference time of fleet_clock. is_heard: lines in so many hours before; of replayed
-- logs alone, any lines, because nobody sends them again. A VM is in the inventory if the last list of running VMs of
-- its host contains it. The one definition for `stunwatch sql not_heard_of` and for the dashboards (heard_of).
CREATE OR REPLACE VIEW heard_at
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    parseDateTime64BestEffort({until:String}, 3, 'UTC') AS until_given,
    until_given <= now64(3, 'UTC') AS is_past,
    (SELECT (as_of, is_live) FROM fleet_clock) AS clock,
    if(is_past, until_given, toDateTime64(clock.1, 3, 'UTC')) AS until_at,
    (SELECT (groupArray(alias), groupArray(host)) FROM host_aliases) AS shown,

    (
        SELECT (groupArray(uuid), groupArray(name))
        FROM
        (
            SELECT datastore_uuid AS uuid, any(datastore) AS name
            FROM host_extents
            WHERE datastore != '' AND datastore_uuid != ''
            GROUP BY uuid
        ) AS volumes
    ) AS volume_names,

    said AS
    (
        SELECT
            'host' AS what, transform(toString(host), shown.1, shown.2, toString(host)) AS called, '' AS volume,
            called AS on_host, NULL AS heard_at, observed_at AS listed_at
        FROM inventory_stored FINAL
        WHERE host != ''
        UNION ALL
        SELECT 'vm' AS what, vm AS called, toString(datastore) AS volume, on_host, NULL AS heard_at, listed_at
        FROM
        (
            SELECT
                vm, datastore, transform(toString(host), shown.1, shown.2, toString(host)) AS on_host,
                observed_at AS listed_at,
                max(observed_at) OVER (PARTITION BY on_host) AS last_list_at
            FROM inventory_stored FINAL
            WHERE kind = 'virtual_machine'
        ) AS listed
        WHERE listed_at = last_list_at
        UNION ALL
        SELECT
            'host' AS what, transform(toString(host), shown.1, shown.2, toString(host)) AS called, '' AS volume,
            called AS on_host, seen_at AS heard_at, NULL AS listed_at
        FROM owners_seen_stored
        WHERE host != '' AND (NOT is_past OR seen_at <= until_at)
        UNION ALL
        SELECT
            'vm' AS what, toString(vm) AS called, toString(datastore) AS volume,
            transform(toString(host), shown.1, shown.2, toString(host)) AS on_host,
            seen_at AS heard_at, NULL AS listed_at
        FROM owners_seen_stored
        WHERE vm != '' AND (NOT is_past OR seen_at <= until_at)
    )

SELECT
    what,
    called AS name,
    transform(volume, volume_names.1, volume_names.2, volume) AS datastore,
    argMaxIf(on_host, coalesce(heard_at, listed_at), on_host != '') AS host,
    max(listed_at) AS last_listed_at,
    max(heard_at) AS last_heard_at,
    isNotNull(last_listed_at) AS is_in_inventory,
    isNotNull(last_heard_at)
    AND ((NOT is_past AND NOT clock.2) OR last_heard_at > until_at - toIntervalHour({hours:UInt32})) AS is_heard,
    if(isNull(last_heard_at), NULL, round(dateDiff('minute', last_heard_at, until_at) / 60, 1)) AS silent_hours
FROM said
GROUP BY what, name, datastore;
