-- One row is one hour of one LUN of one host, or a part of that hour: the average of its slowest minute
-- (worst_…) and its slowest sample (peak_…). Ask for maxima: they are right whatever the parts.
-- device_class and datastore are what inventory says of the device now.
CREATE OR REPLACE VIEW latency_hours AS
WITH
    (
        SELECT (groupArray(device), groupArray(device_class), groupArray(datastore))
        FROM device_facts
    ) AS known
SELECT
    hour,
    host,
    device,
    transform(toString(device), known.1, known.2, 'unknown') AS device_class,
    transform(toString(device), known.1, known.3, '') AS datastore,
    if(origin = '', 'esxtop', origin) AS origin,
    worst_davg_ms,
    peak_davg_ms,
    worst_kavg_ms
FROM latency_hours_stored
WHERE object_class = 'scsi_device';
