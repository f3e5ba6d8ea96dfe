-- Evidence: log lines of the longest, slowest or first events of each kind
WITH
    told AS
    (
        SELECT evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    events AS
    (
        SELECT
            1 AS place, 'Stuns' AS kind, event_id, ended_at AS at, evidence,
            toFloat64(duration_us) AS weight
        FROM stuns
        UNION ALL
        SELECT
            2 AS place, 'Reservation conflicts' AS kind, event_id, started_at AS at, evidence,
            toFloat64(is_stuck) AS weight
        FROM reservation_conflicts
        UNION ALL
        SELECT
            3 AS place, 'Latency' AS kind, event_id, started_at AS at, evidence,
            toFloat64(peak_ms) AS weight
        FROM latency_episodes
        UNION ALL
        SELECT
            4 AS place, 'Paths and volumes' AS kind, event_id, started_at AS at, evidence,
            toFloat64(0) AS weight
        FROM path_events
        UNION ALL
        SELECT
            5 AS place, 'SCSI errors' AS kind, event_id, started_at AS at, evidence,
            toFloat64(count) AS weight
        FROM scsi_errors
        UNION ALL
        SELECT
            6 AS place, 'Snapshots' AS kind, event_id, started_at AS at, evidence,
            toFloat64(coalesce(duration_ms, 0)) AS weight
        FROM snapshot_operations
        UNION ALL
        SELECT
            7 AS place, 'UNMAP' AS kind, event_id, started_at AS at, evidence,
            toFloat64(coalesce(duration_ms, 0)) AS weight
        FROM unmap_runs
    )

SELECT place, kind, line
FROM
(
    SELECT place, kind, at, arrayJoin(arraySlice(evidence, 1, 4)) AS line
    FROM
    (
        SELECT *
        FROM events
        WHERE event_id IN (SELECT arrayJoin(evidence_ids) FROM told) AND notEmpty(evidence)
        ORDER BY place ASC, weight DESC, at ASC
        LIMIT 8 BY place
    ) AS chosen
) AS lines
GROUP BY place, kind, line
ORDER BY place ASC, min(at) ASC, line ASC;
