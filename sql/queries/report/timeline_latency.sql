-- Maximum DAVG of any host, by device and time
-- If the incident has no device: the devices of its hosts.
WITH
    told AS
    (
        SELECT hosts, devices
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    names AS
    (
        SELECT arrayJoin(hosts) AS name FROM told
        UNION DISTINCT
        SELECT alias AS name
        FROM host_aliases
        WHERE host IN (SELECT arrayJoin(hosts) FROM told)
    )

SELECT
    device,
    toStartOfInterval(
        window_start, toIntervalSecond(60 * intDiv({step_s:UInt32} + 59, 60))
    ) AS minute_at,
    max(max_davg_ms) AS davg_ms,
    uniqExact(host) AS hosts
FROM latency_windows
WHERE
    window_start >= {from_at:DateTime64(6)} AND window_start <= {until_at:DateTime64(6)}
    AND isNotNull(max_davg_ms)
    AND object_class IN ('scsi_device', 'disk', 'nfs_volume', 'datastore')
    AND (
        device IN (SELECT arrayJoin(devices) FROM told)
        OR (
            (SELECT any(empty(devices)) FROM told)
            AND host IN (SELECT name FROM names)
        )
    )
GROUP BY device, minute_at
ORDER BY device ASC, minute_at ASC;
