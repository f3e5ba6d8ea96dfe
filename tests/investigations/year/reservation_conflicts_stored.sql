-- 2 million reservation conflicts, most of them on 5 of the clusters.
INSERT INTO reservation_conflicts_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, world_id, first_remaining,
     last_remaining, steps, started_at, ended_at, duration_ms, outcome, device, dialect, is_stuck,
     is_expected, evidence)
WITH
    {now:DateTime64(3, 'UTC')} - toIntervalMillisecond(number * 15768) AS moment,
    if(number % 4 = 0, cityHash64(number) % 1000, cityHash64(number) % 100) AS h,
    cityHash64(number, 2) % 200 = 0 AS is_failed,
    cityHash64(number, 3) % 5 = 0 AS is_device
SELECT
    generateUUIDv4(), 1, 0, moment, 'live',
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'),
    number % 5000, 64, if(is_failed, 0, 16), 4, moment - toIntervalMillisecond(3895), moment, 3895,
    if(is_failed, 'failed', 'recovered'),
    if(is_device, concat('naa.6006', leftPad(toString(intDiv(h, 20) * 10 + number % 10), 28, '0')), ''),
    if(is_device, 'device_status', 'sync_cr'),
    is_failed AND number % 7 = 0,
    cityHash64(number, 4) % 10 = 0,
    [concat('SCSI: vm ', toString(number % 5000), ': 5522: Sync CR at 16')]
FROM numbers(2000000);
