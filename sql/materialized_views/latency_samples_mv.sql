CREATE MATERIALIZED VIEW IF NOT EXISTS latency_samples_mv TO latency_samples_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    assumeNotNull(event_at) AS sampled_at,
    assumeNotNull(received) AS given_received_at,
    host,
    object_class,
    device,
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
    coalesce(samples.offset, 0) AS offset,
    coalesce(samples.line_bytes, 0) AS line_bytes,
    run_id,
    time_quality,
    -- Older rows have no origin either, so the same sample stays the same row.
    if(origin = 'esxtop', '', origin) AS origin
FROM samples
WHERE fault = '' AND kind = 'line';
