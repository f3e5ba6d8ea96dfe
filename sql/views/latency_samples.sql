-- One row is one sample of one object (device, adapter, path, …) at one time; `origin` is its source. Do
-- not average over several sources: their intervals and precision differ.
CREATE OR REPLACE VIEW latency_samples
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    sampled_at,
    host,
    object_class,
    device,
    multiIf(origin != '', origin, object_class = 'datastore', 'storage_rm', 'esxtop') AS origin,
    davg_ms,
    kavg_ms,
    gavg_ms,
    qavg_ms,
    davg_read_ms,
    davg_write_ms,
    gavg_read_ms,
    gavg_write_ms,
    commands_per_second,
    reads_per_second,
    writes_per_second,
    megabytes_read_per_second,
    megabytes_written_per_second,
    active_commands,
    queued_commands,
    failed_reserves_per_second,
    aborts_per_second,
    resets_per_second,
    file,
    generation,
    offset,
    line_bytes,
    received_at,
    run_id,
    time_quality
FROM latency_samples_stored FINAL;
