-- One row is one episode: commands to a device failed with one status from started_at to ended_at.
-- Where path is empty, the log told only that the device failed.
CREATE OR REPLACE VIEW scsi_errors AS
SELECT
    event_id,
    host,
    device,
    path,
    opcode,
    host_status,
    device_status,
    plugin_status,
    sense,
    is_expected,
    started_at,
    ended_at,
    count,
    evidence,
    detected_at,
    run_id
FROM scsi_errors_stored FINAL;
