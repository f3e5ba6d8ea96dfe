-- One row is one loss on the way to storage, or one return. A loss whose ended_at is empty goes on,
-- as far as its host's lines tell.
CREATE OR REPLACE VIEW path_events AS
SELECT
    event_id,
    host,
    path,
    device,
    datastore,
    kind,
    started_at,
    ended_at,
    evidence,
    detected_at,
    run_id
FROM path_events_stored FINAL;
