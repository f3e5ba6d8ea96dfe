-- Who holds the reservation on a LUN, and which hosts wait for it?
-- One row is one datastore or LUN. held_by: hosts that logged how long they held it ("Long VMFS3 rsv
-- time"). refused_on: hosts whose commands it refused (D:0x18, or a "Sync CR" count-down that failed).
-- counting_down: hosts that counted down in a minute in which it was held; their lines name no LUN.
-- If held_by is empty, no host whose logs are here logged that it held the LUN: look at hosts that send
-- no logs, at cluster nodes with raw device mappings, and at physical servers.
-- param name = : part of the datastore's or LUN's name
-- param days = 30 : how far back
-- param until = 2100-01-01 : up to when, UTC; the last conflict at the latest
-- param most = 20 : how many rows
WITH
    least(
        {until:DateTime64(6, 'UTC')}, (SELECT max(started_at) FROM reservation_conflicts_stored), now64(6, 'UTC')
    ) AS until_at,

    conflicts AS
    (
        SELECT
            toString(host) AS on_host, toString(dialect) AS dialect, started_at, ended_at, duration_ms, steps,
            arrayFirst(
                name -> name != '',
                [device_facts.datastore, toString(conflict.datastore), toString(conflict.device), toString(path)]
            ) AS lun
        FROM
        (
            SELECT host, dialect, device, path, datastore, started_at, ended_at, duration_ms, steps
            FROM reservation_conflicts_stored FINAL
            PREWHERE started_at > until_at - toIntervalDay({days:UInt32}) AND started_at <= until_at
            WHERE NOT is_expected
        ) AS conflict
        LEFT JOIN device_facts ON conflict.device = device_facts.device
    ),

    count_downs AS
    (
        SELECT
            arrayJoin(arrayDistinct([toStartOfMinute(started_at), toStartOfMinute(ended_at)])) AS minute,
            groupUniqArray(on_host) AS hosts
        FROM conflicts
        WHERE dialect = 'sync_cr'
        GROUP BY minute
    ),

    seen AS
    (
        SELECT *, arrayJoin(arrayDistinct([toStartOfMinute(started_at), toStartOfMinute(ended_at)])) AS minute
        FROM conflicts
        WHERE lun != '' AND positionCaseInsensitive(lun, {name:String}) > 0
    )

SELECT
    lun,
    arraySort(groupUniqArrayIf(on_host, dialect = 'long_reservation')) AS held_by,
    uniqExactIf((on_host, started_at), dialect = 'long_reservation') AS holds,
    maxIf(duration_ms, dialect = 'long_reservation') AS longest_hold_ms,
    arraySort(groupUniqArrayIf(on_host, dialect != 'long_reservation')) AS refused_on,
    uniqExactIf((on_host, started_at), dialect != 'long_reservation') AS refusals,
    arraySort(arrayDistinct(groupArrayArrayIf(hosts, dialect = 'long_reservation'))) AS counting_down,
    min(started_at) AS first_at,
    max(ended_at) AS last_at
FROM seen
LEFT JOIN count_downs ON seen.minute = count_downs.minute
GROUP BY lun
ORDER BY holds + refusals DESC, lun ASC
LIMIT {most:UInt32}
SETTINGS do_not_merge_across_partitions_select_final = 1;
