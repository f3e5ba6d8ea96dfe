-- The inventory of 1 000 hosts, loaded 4 times: 10 LUNs and a local disk each, from two commands, their extents
-- and 20 VMs per host. A tenth of the LUNs is FIXED.
INSERT INTO inventory_stored
    (event_id, revision, is_deleted, detected_at, run_id, host, kind, told_by, observed_at, device,
     partition, datastore_uuid, datastore, vm, path, vendor, model, size_mb, is_ssd, is_local, is_boot,
     multipath_plugin, array_type, path_policy, transport, paths, targets)
WITH
    number % 1000 AS h,
    intDiv(number, 1000) % 54 AS item,
    intDiv(number, 54000) AS load,
    {now:DateTime64(3, 'UTC')} - toIntervalDay(load * 90) - toIntervalHour(1) AS moment,
    multiIf(item < 11, 'extent', item < 22, 'device', item < 33, 'device', item < 53, 'virtual_machine', 'listing') AS kind_of,
    multiIf(item < 11, 'vmfs extent list', item < 22, 'core device list', item < 33, 'nmp device list', item < 53, 'vm process list', 'vmfs extent list') AS told,
    item % 11 AS d,
    d = 10 AS is_at_home,
    intDiv(h, 20) * 10 + d AS lun,
    item < 33 AS is_storage,
    h + (item - 33) * 1000 AS v
SELECT
    generateUUIDv4(), 1, 0, moment, 'live',
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'),
    kind_of, told, moment,
    multiIf(NOT is_storage, '', is_at_home, concat('naa.5000', leftPad(toString(h), 28, '0')), concat('naa.6006', leftPad(toString(lun), 28, '0'))),
    if(kind_of = 'extent', 1, NULL),
    multiIf(kind_of != 'extent', '', is_at_home, concat('40000000-00000000-0000-', leftPad(toString(h), 12, '0')), concat('50000000-00000000-0000-', leftPad(toString(lun), 12, '0'))),
    multiIf(kind_of = 'virtual_machine', concat('san-', leftPad(toString(intDiv(h, 20)), 2, '0'), '-', toString(intDiv(v, 1000) % 10)), kind_of != 'extent', '', is_at_home, 'datastore1', concat('san-', leftPad(toString(intDiv(h, 20)), 2, '0'), '-', toString(d))),
    if(kind_of = 'virtual_machine', concat('vm', leftPad(toString(v), 5, '0')), ''),
    if(kind_of = 'virtual_machine', concat('/vmfs/volumes/san/vm', toString(v), '.vmx'), ''),
    if(told = 'core device list', if(is_at_home, 'ATA', 'HITACHI'), NULL),
    if(told = 'core device list', 'OPEN-V', NULL),
    if(told = 'core device list', 4194304, NULL),
    if(told = 'core device list', is_at_home, NULL),
    if(told = 'core device list', is_at_home, NULL),
    if(told = 'core device list', false, NULL),
    if(told = 'core device list', 'NMP', NULL),
    if(told = 'nmp device list', if(is_at_home, 'VMW_SATP_LOCAL', 'VMW_SATP_DEFAULT_AA'), NULL),
    if(told = 'nmp device list', if(is_at_home OR lun % 10 = 0, 'VMW_PSP_FIXED', 'VMW_PSP_RR'), NULL),
    if(told = 'core device list', 'fc', NULL),
    [], []
FROM numbers(216000);
