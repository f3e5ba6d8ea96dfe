-- One row is one loss on the path to storage, or one recovery. A loss with an empty ended_at is open, as
-- far as the lines of its host show.
CREATE OR REPLACE VIEW path_events
DEFINER = transform SQL SECURITY DEFINER AS
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
FROM path_events_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
