-- One row is one outage of an NFS server on one host and mount. An outage with an empty ended_at is open,
-- as far as the lines of its host show.
CREATE OR REPLACE VIEW nfs_servers
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    host,
    server,
    share,
    datastore_uuid,
    datastore,
    started_at,
    ended_at,
    duration_ms,
    evidence,
    detected_at,
    run_id
FROM nfs_servers_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
