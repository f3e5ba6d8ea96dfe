-- Stuns that were stored before stuns_by_time was; once more they are the same rows.
INSERT INTO stuns_by_time_stored
    (event_id, version, is_deleted, run_id, host, vm, datastore, ended_at, duration_us, cause, severity, evidence)
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
