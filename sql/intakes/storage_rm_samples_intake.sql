-- Storage I/O Control tells a datastore's latency (ms) by syslog alone:
--   <14>2016-07-08T09:10:11.121Z esx01.lab.example storageRM:  <ds-gold> 27076 avglatency= 1.25 iops= 96 …
-- It is what the host saw of the datastore, so it is its GAVG. The line itself is in log_lines too.
CREATE MATERIALIZED VIEW IF NOT EXISTS storage_rm_samples_intake TO latency_samples_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    extractGroups(
        message, '^<([^<>]+)> \\d+ avglatency= (\\d+(?:\\.\\d+)?) iops= (\\d+(?:\\.\\d+)?)(?: |$)'
    ) AS told
SELECT
    assumeNotNull(event_at) AS sampled_at,
    assumeNotNull(received) AS received_at,
    host,
    'datastore' AS object_class,
    told[1] AS device,
    toFloat64(told[2]) AS gavg_ms,
    toFloat64(told[3]) AS commands_per_second,
    file,
    generation,
    coalesce(records.offset, 0) AS offset,
    coalesce(records.line_bytes, 0) AS line_bytes,
    run_id,
    time_quality
FROM records
WHERE program = 'storagerm' AND fault = '' AND kind = 'line' AND notEmpty(told);
