-- The incident, and the end of its last event
WITH
    told AS
    (
        SELECT *
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    ends AS
    (
        SELECT toNullable(ended_at) AS at, event_id FROM stuns
        UNION ALL
        SELECT coalesce(ended_at, started_at) AS at, event_id FROM reservation_conflicts
        UNION ALL
        SELECT coalesce(ended_at, started_at) AS at, event_id FROM snapshot_operations
        UNION ALL
        SELECT coalesce(ended_at, started_at) AS at, event_id FROM latency_episodes
        UNION ALL
        SELECT coalesce(ended_at, started_at) AS at, event_id FROM path_events
        UNION ALL
        SELECT coalesce(ended_at, started_at) AS at, event_id FROM scsi_errors
        UNION ALL
        SELECT coalesce(ended_at, started_at) AS at, event_id FROM unmap_runs
    )

SELECT
    *,
    (
        SELECT max(at)
        FROM ends
        WHERE event_id IN (SELECT arrayJoin(evidence_ids) FROM told)
    ) AS last_event_at
FROM told;
