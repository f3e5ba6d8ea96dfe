-- Does all I/O of a host use one storage processor or one path, while others are idle?
-- One row is one host whose busiest target port has `share_percent` of its commands or more although it has
-- other ports, or a host that sends the commands of a LUN through one of its paths. A target port is the adapter
-- and target of a path (vmhba1:C0:T0), as in esxtop. LUNs with one path are left out.
-- param minutes = 60 : minutes to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last measured minute
-- param share_percent = 95 : share of commands that counts as all, percent
-- param least_commands_per_second = 10 : smallest load of a host (and a LUN), commands per second
-- param host = : part of the host's name
-- param most = 20 : number of rows
WITH
    least(
        {until:DateTime64(3, 'UTC')},
        (
            SELECT max(window_start)
            FROM latency_windows_stored
            WHERE object_class = 'path'
        ),
        now64(3, 'UTC')
    ) AS until_at,

    sent AS
    (
        SELECT host, device, sum(commands) / ({minutes:UInt32} * 60) AS per_second
        FROM latency_windows_stored FINAL
        PREWHERE
            object_class = 'path'
            AND window_start > until_at - toIntervalMinute({minutes:UInt32}) AND window_start <= until_at
        WHERE positionCaseInsensitive(host, {host:String}) > 0
        GROUP BY host, device
    ),

    paths AS
    (
        SELECT
            host,
            extract(device, '^(.*):L[0-9]{1,19}$') AS target,
            extract(device, ':L([0-9]{1,19})$') AS lun,
            per_second
        FROM sent
        WHERE target != ''
    ),

    luns AS
    (
        SELECT
            host, lun,
            groupArray((target, per_second)) AS ways,
            sum(per_second) AS lun_per_second,
            max(per_second) * 100 >= {share_percent:Float64} * lun_per_second AS is_one_way
        FROM paths
        GROUP BY host, lun
        HAVING count() > 1
    ),

    targets AS
    (
        SELECT host, way.1 AS target, sum(way.2) AS target_per_second
        FROM luns
        ARRAY JOIN ways AS way
        GROUP BY host, target
    ),

    hosts AS
    (
        SELECT
            host,
            sum(target_per_second) AS all_per_second,
            argMax(target, target_per_second) AS busiest_target,
            round(100 * max(target_per_second) / all_per_second, 1) AS busiest_percent,
            arraySort(groupArrayIf(target, target_per_second = 0)) AS idle_targets
        FROM targets
        GROUP BY host
        HAVING all_per_second >= {least_commands_per_second:Float64} AND count() > 1
    ),

    judged AS
    (
        SELECT
            host,
            countIf(is_one_way) AS luns_on_one_path,
            count() AS luns_with_traffic
        FROM luns
        WHERE lun_per_second >= {least_commands_per_second:Float64}
        GROUP BY host
    )

SELECT
    host,
    busiest_target,
    busiest_percent,
    idle_targets,
    round(all_per_second, 1) AS commands_per_second,
    luns_on_one_path,
    luns_with_traffic
FROM hosts
INNER JOIN judged USING (host)
WHERE busiest_percent >= {share_percent:Float64} OR luns_on_one_path > 0
ORDER BY busiest_percent DESC, luns_on_one_path DESC, commands_per_second DESC, host ASC
LIMIT {most:UInt32};
