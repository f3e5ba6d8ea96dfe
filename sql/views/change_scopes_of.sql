-- One row is a list of changes, or of the time `at`, with what belongs to each: hosts, datastores and LUNs.
-- Internal: a part of change_effects_of, with its parameters. The only column is the parameter `scopes` of
-- change_effects_in. `one_vm_of`: in a large fleet only the stuns of every nth VM count.
CREATE OR REPLACE VIEW change_scopes_of
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    picked AS
    (
        SELECT
            toString(change_id) AS picked_id, toNullable(changed_at) AS picked_at, title AS picked_title,
            toString(kind) AS picked_kind,
            if({host:String} = '', toString(host), {host:String}) AS for_host,
            if({device:String} = '', toString(device), {device:String}) AS for_device,
            if({datastore:String} = '', toString(datastore), {datastore:String}) AS for_datastore
        FROM changes
        WHERE {at:String} = '' AND {change:String} IN ('', toString(change_id))
        ORDER BY changed_at DESC, picked_id ASC
        LIMIT {most:UInt32}
        UNION ALL
        SELECT
            '' AS picked_id, parseDateTime64BestEffortOrNull({at:String}, 3, 'UTC') AS picked_at, '' AS picked_title,
            '' AS picked_kind,
            {host:String} AS for_host, {device:String} AS for_device, {datastore:String} AS for_datastore
        WHERE {at:String} != ''
    ),

    toIntervalDay({days:UInt32}) AS reach,

    -- Constants. Each is computed once, but analysed at each use, so each is used once.
    (
        SELECT (min(assumeNotNull(picked_at)) - reach, max(assumeNotNull(picked_at)) + reach)
        FROM picked
    ) AS span,

    -- The scope of each change.
    (
        SELECT
            groupArray((
                number, picked_id, picked_at, picked_title, picked_kind, for_host, for_device, for_datastore,
                hosts, volumes, luns, near_hosts
            ))
        FROM
        (
            SELECT
                *,
                -- If no LUN is known, the hosts that ran the VMs.
                if(
                    notEmpty(hosts) OR notEmpty(luns) OR ({vm:String} = '' AND for_datastore = ''),
                    hosts,
                    arrayDistinct(arrayMap(
                        ran -> ran.1,
                        arrayFilter(
                            ran -> for_datastore = '' OR has(volumes, ran.2),
                            (
                                SELECT groupUniqArray((toString(host), toString(datastore)))
                                FROM owners_seen_stored
                                WHERE vm != '' AND host != '' AND positionCaseInsensitive(vm, {vm:String}) > 0
                            )
                        )
                    ))
                ) AS near_hosts
            FROM
            (
                SELECT
                    *,
                    arrayDistinct(arrayFilter(
                        name -> name != '',
                        arrayConcat(
                            [for_datastore],
                            arrayMap(extent -> extent.2, extents), arrayMap(extent -> extent.3, extents)
                        )
                    )) AS volumes,
                    multiIf(
                        for_device != '', [for_device],
                        for_datastore != '', arrayMap(extent -> extent.1, extents),
                        {vm_luns:String} != '', arrayFilter(each -> each != '', splitByString(', ', {vm_luns:String})),
                        (
                            SELECT groupUniqArray(device)
                            FROM vm_storage
                            WHERE {vm:String} != '' AND device != '' AND positionCaseInsensitive(vm, {vm:String}) > 0
                        )
                    ) AS luns
                FROM
                (
                    SELECT
                        *,
                        row_number() OVER (ORDER BY picked_at DESC, picked_id ASC) AS number,
                        if(
                            for_host = '',
                            [],
                            arrayConcat([for_host], arrayFirst(
                                names -> has(names, for_host),
                                -- Every name of each host.
                                (
                                    SELECT groupArray(names)
                                    FROM
                                    (
                                        SELECT arrayPushBack(groupUniqArray(alias), host) AS names
                                        FROM host_aliases
                                        GROUP BY host
                                    ) AS known
                                )
                            ))
                        ) AS hosts,
                        arrayFilter(
                            extent -> if(
                                for_datastore = '',
                                for_device != '' AND extent.1 = for_device,
                                for_datastore IN (extent.2, extent.3)
                            ),
                            (
                                SELECT groupUniqArray((device, datastore, datastore_uuid))
                                FROM host_extents
                            )
                        ) AS extents
                    FROM picked
                    WHERE isNotNull(picked_at)
                ) AS named
            ) AS located
        ) AS scoped
    ) AS places

-- For a year of a large fleet, the stuns of every nth VM are a sample of all; nth is a power of 2.
SELECT base64Encode(toString(groupArray((
    place.1, place.2, toUnixTimestamp64Milli(assumeNotNull(place.3)), place.4, place.5, place.6, place.7, place.8,
    place.9, place.10, place.11, place.12, one_vm_of
)))) AS scopes
FROM
(
    SELECT
        place,
        toUInt64(exp2(ceil(log2(greatest(1, sumIf(
            arraySum(
                (day, counted) -> if(day >= toDate(place.3 - reach) AND day <= toDate(place.3 + reach), counted, 0),
                days, counts
            ),
            (empty(place.10) OR has(place.10, on_volume)) AND (empty(place.9) OR has(place.9, on_host))
        ) / 50000))))) AS one_vm_of
    FROM (SELECT arrayJoin(places) AS place) AS each_place
    CROSS JOIN
    (
        SELECT
            toString(host) AS on_host, toString(datastore) AS on_volume,
            groupArray(day) AS days, groupArray(stuns_of_day) AS counts
        FROM
        (
            SELECT toDate(ended_at) AS day, host, datastore, count() AS stuns_of_day
            FROM stuns_by_time_stored
            WHERE ended_at >= span.1 AND ended_at < span.2 AND positionCaseInsensitive(vm, {vm:String}) > 0
            GROUP BY day, host, datastore
        ) AS by_day
        GROUP BY on_host, on_volume
        UNION ALL
        -- Keep a change without stuns.
        SELECT '' AS on_host, '' AS on_volume, [] AS days, [] AS counts
    ) AS counted
    GROUP BY place
) AS each_scope;
