-- One row is one hour of one LUN on one host, or a part of that hour: the average of its slowest minute
-- (worst_…) and its slowest sample (peak_…). Query maxima: they are right for all parts. device_class,
-- datastore and is_local are those of the current inventory. array: the company and the serial number in the
-- device's name, which all LUNs of an array share. It is empty if the name does not show it. lun: a name for
-- charts that sorts by array, such as `array 012345 · san-01-3 · 0a1b`.
CREATE OR REPLACE VIEW latency_hours
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    (
        SELECT (groupArray(device), groupArray(device_class), groupArray(datastore), groupArray(is_local))
        FROM device_facts
    ) AS known
SELECT
    hour,
    host,
    device,
    transform(toString(device), known.1, known.2, 'unknown') AS device_class,
    transform(toString(device), known.1, known.3, '') AS datastore,
    -- mpx and t10.ATA are names of disks that only one host can reach.
    transform(toString(device), known.1, known.4, match(device, '^(mpx[.]|t10[.](ATA|NVMe))')) AS is_local,
    extract(device, '^(naa[.]6[0-9a-f]{15})[0-9a-f]{16}$') AS array,
    -- The last digits of the device: a datastore may span several LUNs.
    concat(
        if(array = '', 'unknown array', concat('array ', right(array, 6))), ' · ',
        if(datastore = '', device, concat(datastore, ' · ', right(device, 4)))
    ) AS lun,
    if(origin = '', 'esxtop', origin) AS origin,
    worst_davg_ms,
    peak_davg_ms,
    worst_kavg_ms
FROM latency_hours_stored
WHERE object_class IN ('scsi_device', 'disk');
