-- What changed in the 72 hours before an incident?
-- Told by `noted` (stunwatch change), by `inventory` (what a host says that differs from what it said
-- before; it changed since then, at the latest when it was said) and by `paths` (first losses of the
-- hosts concerned). concerns: the hosts, LUNs or datastores of the incident, all, or others.
-- param incident = : its id; the latest one where empty
-- param hours = 72 : how far to look before it
-- param most = 50 : how many rows
WITH
    happened AS
    (
        SELECT opened_at, hosts, devices, datastores
        FROM incidents
        WHERE {incident:String} IN ('', toString(incident_id))
        ORDER BY opened_at DESC
        LIMIT 1
    ),

    (SELECT max(toNullable(opened_at)) FROM happened) AS opened,
    opened - toIntervalHour({hours:UInt32}) AS from_at,
    (SELECT groupArrayArray(hosts) FROM happened) AS its_hosts,
    (SELECT groupArrayArray(devices) FROM happened) AS its_devices,
    (SELECT groupArrayArray(datastores) FROM happened) AS its_datastores,

    said AS
    (
        SELECT
            host, device, told_by, observed_at,
            [
                ('path policy', coalesce(path_policy, '')),
                ('array type', coalesce(array_type, '')),
                ('multipath plugin', coalesce(multipath_plugin, '')),
                ('paths', if(empty(paths), '', concat(toString(length(paths)), ' paths')))
            ] AS properties
        FROM inventory_stored FINAL
        WHERE kind = 'device'
    ),

    differing AS
    (
        SELECT
            host, device, observed_at, each.1 AS property, each.2 AS now_said,
            lagInFrame(each.2) OVER (
                PARTITION BY host, device, told_by, each.1 ORDER BY observed_at
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS said_before
        FROM said
        ARRAY JOIN properties AS each
        WHERE each.2 != ''
    ),

    found AS
    (
        SELECT
            toDateTime64(changed_at, 6, 'UTC') AS at, 'noted' AS told_by, toString(kind) AS kind, title AS what,
            if(host = '', [], [toString(host)]) AS on_hosts,
            if(device = '', [], [toString(device)]) AS on_devices,
            if(datastore = '', [], [toString(datastore)]) AS on_datastores
        FROM changes
        WHERE changed_at > from_at AND changed_at <= opened
        UNION ALL
        SELECT
            max(observed_at) AS at, 'inventory' AS told_by, property AS kind,
            concat(said_before, ' became ', now_said) AS what,
            groupUniqArray(toString(host)) AS on_hosts,
            groupUniqArray(toString(device)) AS on_devices,
            [] AS on_datastores
        FROM differing
        WHERE
            said_before != '' AND said_before != now_said
            AND observed_at > from_at AND observed_at <= opened
        GROUP BY property, said_before, now_said
        UNION ALL
        SELECT
            max(valid_from) AS at, 'inventory' AS told_by, 'datastore' AS kind,
            concat(datastore, ' appeared') AS what,
            groupUniqArray(toString(host)) AS on_hosts,
            groupUniqArray(toString(device)) AS on_devices,
            [toString(datastore)] AS on_datastores
        FROM host_extents
        WHERE valid_from > from_at AND valid_from <= opened
        GROUP BY datastore
        UNION ALL
        SELECT
            max(valid_until) AS at, 'inventory' AS told_by, 'datastore' AS kind,
            concat(datastore, ' disappeared') AS what,
            groupUniqArray(toString(host)) AS on_hosts,
            groupUniqArray(toString(device)) AS on_devices,
            [toString(datastore)] AS on_datastores
        FROM host_extents
        WHERE isNotNull(valid_until) AND valid_until > from_at AND valid_until <= opened
        GROUP BY datastore
        UNION ALL
        SELECT
            min(started_at) AS at, 'paths' AS told_by, toString(kind) AS kind,
            concat(
                toString(count()), ' times, first ', argMin(if(path = '', device, path), started_at)
            ) AS what,
            [toString(host)] AS on_hosts,
            [] AS on_devices,
            [] AS on_datastores
        FROM path_events_stored FINAL
        PREWHERE started_at > from_at AND started_at <= opened
        WHERE
            kind IN ('path_dead', 'apd_start', 'pdl', 'lost_access') AND has(its_hosts, toString(host))
        GROUP BY host, kind
    )

SELECT
    round(dateDiff('minute', at, assumeNotNull(opened)) / 60, 1) AS hours_before,
    at,
    told_by,
    kind,
    what,
    length(on_hosts) AS hosts,
    arraySlice(arraySort(on_hosts), 1, 5) AS some_hosts,
    length(on_devices) AS devices,
    arraySlice(arraySort(on_devices), 1, 5) AS some_devices,
    multiIf(
        hasAny(on_devices, its_devices), 'its LUNs',
        hasAny(on_datastores, its_datastores), 'its datastores',
        notEmpty(on_devices) AND notEmpty(its_devices), 'others',
        hasAny(on_hosts, its_hosts), 'its hosts',
        empty(on_hosts) AND empty(on_devices) AND empty(on_datastores), 'all',
        'others'
    ) AS concerns
FROM found
ORDER BY at DESC, told_by ASC, kind ASC, what ASC
LIMIT {most:UInt32};
