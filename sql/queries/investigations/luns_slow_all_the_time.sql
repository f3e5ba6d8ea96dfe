-- Which LUNs are always slow, on every host that uses them?
-- Always: three quarters of a host's samples of the week took slow_ms or longer; spikes do not count. One such
-- LUN: check the LUN. Several: check the array or the fabric.
-- param weeks = 1 : number of weeks with samples, counted back from the last one
-- param until = 2100-01-01 : until this time, UTC; at most the last week with samples
-- param slow_ms = 25 : high DAVG of a LUN, milliseconds (for NFS and datastores: guest latency)
-- param hosts_percent = 100 : percentage of the measuring hosts on which it must be slow
-- param most = 50 : number of rows
WITH
    toMonday(least(
        toDate({until:DateTime64(6, 'UTC')}), (SELECT max(week) FROM latency_baselines_stored), today()
    )) AS last_week,

    usual AS
    (
        SELECT
            device,
            host,
            arrayMap(
                logarithm -> exp(logarithm), quantilesTDigestMerge(0.25, 0.5, 0.75)(logarithms)
            ) AS quartiles_ms
        FROM latency_baselines_stored
        WHERE
            object_class IN ('scsi_device', 'disk', 'nfs_volume', 'datastore')
            AND metric IN ('davg', 'gavg')
            AND week > last_week - 7 * {weeks:UInt32} AND week <= last_week
        -- Who measures with other steps is asked for himself.
        GROUP BY object_class, device, host, origin
    ),

    datastores AS
    (
        SELECT device, arraySort(groupUniqArray(datastore)) AS names
        FROM host_extents
        WHERE datastore != '' AND isNull(valid_until)
        GROUP BY device
    ),

    slow AS
    (
        SELECT
            device,
            uniqExactIf(host, quartiles_ms[1] >= {slow_ms:Float64}) AS hosts_slow,
            uniqExact(host) AS hosts_measured,
            round(min(quartiles_ms[1]), 1) AS least_p25_ms,
            round(quantileExact(0.5)(quartiles_ms[2]), 1) AS median_ms,
            round(max(quartiles_ms[3]), 1) AS most_p75_ms,
            arraySort(groupUniqArrayIf(5)(toString(host), quartiles_ms[1] < {slow_ms:Float64})) AS hosts_not_slow
        FROM usual
        GROUP BY device
        HAVING hosts_slow > 0 AND hosts_slow * 100 >= {hosts_percent:Float64} * hosts_measured
    )

SELECT
    slow.*,
    names AS datastores,
    multiIf(
        hosts_measured = 1, 'host or LUN: only one host measured it',
        count() OVER () > 1, 'array or fabric',
        'the LUN'
    ) AS points_at
FROM slow
LEFT JOIN datastores ON slow.device = datastores.device
ORDER BY median_ms DESC, device ASC
LIMIT {most:UInt32};
