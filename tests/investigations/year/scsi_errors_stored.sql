-- 500 000 episodes of failed commands, half of them expected.
INSERT INTO scsi_errors_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, device, path, opcode, host_status,
     device_status, plugin_status, sense, is_expected, started_at, ended_at, count, evidence)
WITH
    {now:DateTime64(3, 'UTC')} - toIntervalMillisecond(number * 63072) AS moment,
    cityHash64(number) % 1000 AS h
SELECT
    generateUUIDv4(), 1, 0, moment, 'live',
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'),
    concat('naa.6006', leftPad(toString(intDiv(h, 20) * 10 + number % 10), 28, '0')),
    concat('vmhba', toString(number % 2), ':C0:T0:L', toString(number % 10)), '2a', '0x0',
    ['0x8', '0x2', '0x28'][number % 3 + 1], '0x0', '', number % 2 = 0, moment,
    moment + toIntervalSecond(30), 12, ['failed']
FROM numbers(500000);
