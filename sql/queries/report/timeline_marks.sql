-- Other events: snapshots, lost paths and volumes, failed commands, reservations, UNMAP
-- One row is one spot of the drawing: events of one kind at one time.
WITH
    told AS
    (
        SELECT hosts, devices, datastores, vms, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    names AS
    (
        SELECT arrayJoin(hosts) AS name FROM told
        UNION DISTINCT
        SELECT alias AS name
        FROM host_aliases
        WHERE host IN (SELECT arrayJoin(hosts) FROM told)
    ),

    events AS
    (
        SELECT
            event_id,
            multiIf(
                kind = 'create', 'snapshot created',
                kind = 'create_memory', 'snapshot with memory',
                'snapshot removed'
            ) AS what,
            outcome = 'failed' OR is_converging = 0 AS is_bad,
            started_at AS from_at,
            ended_at AS to_at,
            vm IN (SELECT arrayJoin(vms) FROM told)
            OR datastore IN (SELECT arrayJoin(datastores) FROM told) AS is_near
        FROM snapshot_operations
        UNION ALL
        SELECT
            event_id,
            if(dialect = 'device_status', 'commands refused (0x18)', 'long reservation') AS what,
            outcome = 'failed' AS is_bad,
            started_at AS from_at,
            ended_at AS to_at,
            NOT is_expected AND (
                host IN (SELECT name FROM names) OR device IN (SELECT arrayJoin(devices) FROM told)
            ) AS is_near
        FROM reservation_conflicts
        WHERE dialect != 'sync_cr' OR isNull(last_remaining)
        UNION ALL
        SELECT
            event_id,
            replaceAll(toString(kind), '_', ' ') AS what,
            kind NOT IN ('path_on', 'apd_end', 'heartbeat_reclaimed') AS is_bad,
            started_at AS from_at,
            ended_at AS to_at,
            host IN (SELECT name FROM names)
            OR device IN (SELECT arrayJoin(devices) FROM told)
            OR datastore IN (SELECT arrayJoin(datastores) FROM told) AS is_near
        FROM path_events
        UNION ALL
        SELECT
            event_id,
            'SCSI errors' AS what,
            true AS is_bad,
            started_at AS from_at,
            ended_at AS to_at,
            NOT is_expected AND (
                host IN (SELECT name FROM names) OR device IN (SELECT arrayJoin(devices) FROM told)
            ) AS is_near
        FROM scsi_errors
        UNION ALL
        SELECT
            event_id,
            'UNMAP' AS what,
            outcome = 'failed' AS is_bad,
            started_at AS from_at,
            ended_at AS to_at,
            host IN (SELECT name FROM names) AS is_near
        FROM unmap_runs
    )

SELECT
    what,
    coalesce(is_bad, 0) AS is_failure,
    event_id IN (SELECT arrayJoin(evidence_ids) FROM told) AS belongs,
    min(from_at) AS first_at,
    max(coalesce(to_at, {until_at:DateTime64(6)})) AS last_at,
    count() AS events
FROM events
WHERE
    (belongs OR is_near)
    AND from_at <= {until_at:DateTime64(6)}
    AND coalesce(to_at, {until_at:DateTime64(6)}) >= {from_at:DateTime64(6)}
GROUP BY what, is_failure, belongs, intDiv(toUnixTimestamp(from_at), {step_s:UInt32})
ORDER BY what ASC, first_at ASC
LIMIT 3000;
