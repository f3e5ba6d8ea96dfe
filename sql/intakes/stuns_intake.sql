CREATE MATERIALIZED VIEW IF NOT EXISTS stuns_intake TO stuns_stored AS
SELECT
    event_id,
    revision,
    is_deleted,
    topic_time AS detected_at,
    run_id,
    host,
    vm,
    datastore,
    parseDateTime64BestEffort(stun_events.started_at, 6, 'UTC') AS started_at,
    parseDateTime64BestEffort(stun_events.ended_at, 6, 'UTC') AS ended_at,
    duration_us,
    reported_us,
    measured_by,
    cause,
    cause_detail,
    migration_id,
    switchover_us,
    is_quiesced,
    is_cbt,
    severity,
    evidence
FROM stun_events
WHERE error = '';
