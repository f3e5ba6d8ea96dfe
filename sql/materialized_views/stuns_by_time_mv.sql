-- Every stun again, sorted by time.
CREATE MATERIALIZED VIEW IF NOT EXISTS stuns_by_time_mv TO stuns_by_time_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    version,
    is_deleted,
    run_id,
    host,
    vm,
    datastore,
    ended_at,
    duration_us,
    cause,
    severity,
    evidence
FROM stuns_stored;
