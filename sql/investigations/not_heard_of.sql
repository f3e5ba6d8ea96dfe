-- Which hosts and VMs are in the inventory but were not heard of in the last 24 hours?
-- A host always has something to log. A VM that nothing happens to may write nothing for days: look at
-- whole datastores first. A VM counts if the last list of its host's running VMs names it.
-- Only the last time is known: as of a past moment, what was heard since shows as never heard.
-- param hours = 24 : how long silent
-- param until = 2100-01-01 : as of when, UTC; now at the latest
-- param most = 100 : how many rows
WITH
    least({until:DateTime64(3, 'UTC')}, now64(3, 'UTC')) AS until_at,

    (
        SELECT (groupArray(alias), groupArray(host)) FROM host_aliases
    ) AS shown,

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

    listed AS
    (
        SELECT
            transform(toString(host), shown.1, shown.2, toString(host)) AS on_host,
            kind, vm, datastore, observed_at,
            max(observed_at) OVER (PARTITION BY on_host, kind) AS last_list_at
        FROM inventory_stored FINAL
    ),

    expected AS
    (
        SELECT 'host' AS what, on_host AS name, '' AS volume, any(on_host) AS host, max(observed_at) AS listed_at
        FROM listed
        GROUP BY on_host
        UNION ALL
        SELECT
            'vm' AS what, vm AS name,
            transform(toString(datastore), volume_names.1, volume_names.2, toString(datastore)) AS volume,
            argMax(on_host, observed_at) AS host, max(observed_at) AS listed_at
        FROM listed
        WHERE kind = 'virtual_machine' AND observed_at = last_list_at
        GROUP BY name, volume
    ),

    heard AS
    (
        SELECT
            'host' AS what, transform(toString(host), shown.1, shown.2, toString(host)) AS name, '' AS volume,
            max(seen_at) AS heard_at
        FROM owners_seen_stored
        WHERE host != '' AND seen_at <= until_at
        GROUP BY name
        UNION ALL
        SELECT
            'vm' AS what, toString(vm) AS name,
            transform(toString(datastore), volume_names.1, volume_names.2, toString(datastore)) AS volume,
            max(seen_at) AS heard_at
        FROM owners_seen_stored
        WHERE vm != '' AND seen_at <= until_at
        GROUP BY name, volume
    )

SELECT
    what,
    name,
    volume AS datastore,
    host,
    listed_at,
    if(toUnixTimestamp64Milli(heard_at) = 0, NULL, heard_at) AS last_heard_at,
    if(isNull(last_heard_at), NULL, round(dateDiff('minute', heard_at, until_at) / 60, 1)) AS silent_hours
FROM expected
LEFT JOIN heard USING (what, name, volume)
WHERE heard_at <= until_at - toIntervalHour({hours:UInt32})
ORDER BY what ASC, silent_hours DESC NULLS FIRST, name ASC
LIMIT {most:UInt32};
