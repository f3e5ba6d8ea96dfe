-- One row is one episode of failed commands to a device, with one status, from started_at to ended_at. If
-- path is empty, the log names only the device.
CREATE OR REPLACE VIEW scsi_errors
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    event_id,
    host,
    device,
    path,
    opcode,
    host_status,
    device_status,
    plugin_status,
    transform(
        if(host_status = '0x0', concat('D:', device_status), concat('H:', host_status)),
        [
            'H:0x1', 'H:0x2', 'H:0x3', 'H:0x5', 'H:0x7', 'H:0x8', 'H:0xb', 'H:0xc',
            'D:0x2', 'D:0x8', 'D:0x18', 'D:0x28'
        ],
        [
            'no connection', 'bus busy', 'time-out', 'aborted', 'internal error', 'reset',
            'soft error, retried', 'transient transport error',
            'check condition', 'busy', 'reservation conflict', 'task set full'
        ],
        ''
    ) AS meaning,
    sense,
    is_expected,
    started_at,
    ended_at,
    count,
    evidence,
    detected_at,
    run_id
FROM scsi_errors_stored FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1;
