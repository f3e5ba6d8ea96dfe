-- One row is one change near an incident:
--   SELECT * FROM changes_near(incident = '1f0a3a51', hours = 72, until = '2012-03-19 03:30:00')
-- The report and `stunwatch sql changes_before_incident` use this definition. It begins so many hours before the
-- incident was opened. Without `until` it ends when the incident was opened. `incident` is its id or the beginning
-- of it; without one, the latest incident.
-- `told_by` is `noted` (stunwatch change), `inventory` (differs from the host's previous inventory) or `paths`
-- (first losses of the hosts concerned). A change in the inventory is older than the new inventory.
-- `concerns`: the hosts, LUNs or datastores of the incident, all, or others.
CREATE OR REPLACE VIEW changes_near
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    happened AS
    (
        SELECT opened_at, hosts, devices, datastores
        FROM incidents
        WHERE startsWith(toString(incident_id), {incident:String})
        ORDER BY opened_at DESC
        LIMIT 1
    ),

    (SELECT max(toNullable(opened_at)) FROM happened) AS opened,
    opened - toIntervalHour({hours:UInt32}) AS from_at,
    coalesce(parseDateTime64BestEffortOrNull({until:String}, 6, 'UTC'), opened) AS until_at,
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
            toString(change_id) AS change_id, toDateTime64(changed_at, 6, 'UTC') AS at, 'noted' AS told_by,
            toString(kind) AS kind, title AS what,
            if(host = '', [], [toString(host)]) AS on_hosts,
            if(device = '', [], [toString(device)]) AS on_devices,
            if(datastore = '', [], [toString(datastore)]) AS on_datastores
        FROM changes
        WHERE changed_at > from_at AND changed_at <= until_at
        UNION ALL
        SELECT
            '' AS change_id, max(observed_at) AS at, 'inventory' AS told_by, property AS kind,
            concat(said_before, ' became ', now_said) AS what,
            groupUniqArray(toString(host)) AS on_hosts,
            groupUniqArray(toString(device)) AS on_devices,
            [] AS on_datastores
        FROM differing
        WHERE
            said_before != '' AND said_before != now_said
            AND observed_at > from_at AND observed_at <= until_at
        GROUP BY property, said_before, now_said, observed_at <= opened
        UNION ALL
        SELECT
            '' AS change_id, max(valid_from) AS at, 'inventory' AS told_by, 'datastore' AS kind,
            concat(datastore, ' appeared') AS what,
            groupUniqArray(toString(host)) AS on_hosts,
            groupUniqArray(toString(device)) AS on_devices,
            [toString(datastore)] AS on_datastores
        FROM host_extents
        WHERE valid_from > from_at AND valid_from <= until_at
        GROUP BY datastore, valid_from <= opened
        UNION ALL
        SELECT
            '' AS change_id, max(valid_until) AS at, 'inventory' AS told_by, 'datastore' AS kind,
            concat(datastore, ' disappeared') AS what,
            groupUniqArray(toString(host)) AS on_hosts,
            groupUniqArray(toString(device)) AS on_devices,
            [toString(datastore)] AS on_datastores
        FROM host_extents
        WHERE isNotNull(valid_until) AND valid_until > from_at AND valid_until <= until_at
        GROUP BY datastore, valid_until <= opened
        UNION ALL
        SELECT
            '' AS change_id, min(started_at) AS at, 'paths' AS told_by, toString(kind) AS kind,
            concat(
                toString(count()), ' times, first ', argMin(if(path = '', device, path), started_at)
            ) AS what,
            [toString(host)] AS on_hosts,
            [] AS on_devices,
            [] AS on_datastores
        FROM path_events_stored FINAL
        PREWHERE started_at > from_at AND started_at <= until_at
        WHERE
            kind IN ('path_dead', 'apd_start', 'pdl', 'lost_access') AND has(its_hosts, toString(host))
        GROUP BY host, kind, started_at <= opened
    )

SELECT
    change_id,
    at,
    told_by,
    kind,
    what,
    on_hosts AS hosts,
    on_devices AS devices,
    on_datastores AS datastores,
    at <= opened AS is_before,
    round(dateDiff('minute', at, assumeNotNull(opened)) / 60, 1) AS hours_before,
    multiIf(
        hasAny(on_devices, its_devices), 'its LUNs',
        hasAny(on_datastores, its_datastores), 'its datastores',
        notEmpty(on_devices) AND notEmpty(its_devices), 'others',
        hasAny(on_hosts, its_hosts), 'its hosts',
        empty(on_hosts) AND empty(on_devices) AND empty(on_datastores), 'all',
        'others'
    ) AS concerns
FROM found;
