-- Affected hosts: events of each
WITH
    told AS
    (
        SELECT hosts, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    named AS
    (
        SELECT
            each.called AS called,
            if(names.host = '', each.called, names.host) AS full_name
        FROM
        (
            SELECT arrayJoin(hosts) AS called FROM told
        ) AS each -- noqa: ST05
        LEFT JOIN host_aliases AS names ON each.called = names.alias
    ),

    events AS
    (
        SELECT host, 'stun' AS what, event_id FROM stuns
        UNION ALL
        SELECT host, 'conflict' AS what, event_id FROM reservation_conflicts
        UNION ALL
        SELECT host, 'latency' AS what, event_id FROM latency_episodes
        UNION ALL
        SELECT host, 'path' AS what, event_id FROM path_events
        UNION ALL
        SELECT host, 'scsi' AS what, event_id FROM scsi_errors
    ),

    saw AS
    (
        SELECT
            if(names.host = '', toString(events.host), names.host) AS full_name,
            countIf(what = 'stun') AS stuns,
            countIf(what = 'conflict') AS conflicts,
            countIf(what = 'latency') AS latency_episodes,
            countIf(what = 'path') AS path_events,
            countIf(what = 'scsi') AS scsi_errors
        FROM events
        LEFT JOIN host_aliases AS names ON events.host = names.alias
        WHERE event_id IN (SELECT arrayJoin(evidence_ids) FROM told)
        GROUP BY full_name
    )

SELECT
    named.called AS host,
    saw.stuns AS stuns,
    saw.conflicts AS conflicts,
    saw.latency_episodes AS latency_episodes,
    saw.path_events AS path_events,
    saw.scsi_errors AS scsi_errors
FROM named
LEFT JOIN saw ON named.full_name = saw.full_name
ORDER BY stuns + conflicts + latency_episodes + path_events + scsi_errors DESC, host ASC
LIMIT 40;
