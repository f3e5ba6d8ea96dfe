-- Affected datastores: devices, stuns, worst stun
WITH
    told AS
    (
        SELECT opened_at, datastores, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    named AS (SELECT arrayJoin(datastores) AS called FROM told),

    -- A datastore is called by its name or by its UUID.
    lies AS
    (
        SELECT
            arrayJoin(arrayDistinct([datastore, datastore_uuid])) AS called,
            arraySort(groupUniqArray(toString(device))) AS devices
        FROM host_extents
        WHERE
            valid_from <= (SELECT any(opened_at) FROM told)
            AND (isNull(valid_until) OR valid_until > (SELECT any(opened_at) FROM told))
        GROUP BY called
    ),

    stood AS
    (
        SELECT datastore, count() AS stuns, max(duration_us) AS worst_us
        FROM stuns
        WHERE event_id IN (SELECT arrayJoin(evidence_ids) FROM told)
        GROUP BY datastore
    )

SELECT
    named.called AS datastore,
    lies.devices AS devices,
    stood.stuns AS stuns,
    stood.worst_us AS worst_us
FROM named
LEFT JOIN lies ON named.called = lies.called
LEFT JOIN stood ON named.called = stood.datastore
ORDER BY stuns DESC, datastore ASC
LIMIT 40;
