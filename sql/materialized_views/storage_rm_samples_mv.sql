-- Storage I/O Control reports a datastore's latency (ms) only by syslog:
--   <14>2016-07-08T09:10:11.121Z esx01.lab.example storageRM:  <ds-gold> 27076 avglatency= 1.25 iops= 96 …
-- The latency is the one that the host measured for the datastore, so it is stored as GAVG. The line itself is also in
-- log_lines.
CREATE MATERIALIZED VIEW IF NOT EXISTS storage_rm_samples_mv TO latency_samples_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    extractGroups(
        message, '^<([^<>]+)> \\d{1,19} avglatency= (\\d{1,9}(?:\\.\\d{1,6})?) iops= (\\d{1,9}(?:\\.\\d{1,6})?)(?: |$)'
    ) AS told
SELECT
    assumeNotNull(event_at) AS sampled_at,
    assumeNotNull(received) AS given_received_at,
    host,
    'datastore' AS object_class,
    -- As in ingest/records.py: datastore1 is another one on every host.
    if(
        host != '' AND match(told[1], '^datastore1(?: \\(\\d{1,5}\\))?$'),
        concat(told[1], ' (', if(match(host, '^[0-9.]+$|:'), host, lower(splitByChar('.', host)[1])), ')'),
        told[1]
    ) AS device,
    toFloat64OrNull(told[2]) AS gavg_ms,
    toFloat64OrNull(told[3]) AS commands_per_second,
    file,
    generation,
    coalesce(records.offset, 0) AS offset,
    coalesce(records.line_bytes, 0) AS line_bytes,
    run_id,
    time_quality
FROM records
WHERE program = 'storagerm' AND fault = '' AND kind = 'line' AND notEmpty(told);
