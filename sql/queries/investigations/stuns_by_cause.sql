-- What stuns my VMs, and on which datastores?
-- param days = 30 : days to look back
-- param until = 2100-01-01 : until this time, UTC; at most the last stun
-- param vm = : part of the VM's name
-- param datastore = : part of the datastore's name
-- param most = 20 : number of rows
WITH
    least({until:DateTime64(6, 'UTC')}, (SELECT max(ended_at) FROM stuns_stored), now64(6, 'UTC')) AS until_at
SELECT
    cause,
    datastore,
    count() AS stuns,
    uniqExact(vm) AS vms,
    round(quantileExact(0.5)(duration_us) / 1e6, 3) AS p50_s,
    round(quantileExact(0.99)(duration_us) / 1e6, 3) AS p99_s,
    round(max(duration_us) / 1e6, 3) AS worst_s,
    round(sum(duration_us) / 1e6, 3) AS stood_still_s,
    countIf(severity = 'critical') AS critical
FROM stuns_stored FINAL
PREWHERE ended_at > until_at - toIntervalDay({days:UInt32}) AND ended_at <= until_at
WHERE
    positionCaseInsensitive(vm, {vm:String}) > 0
    AND positionCaseInsensitive(datastore, {datastore:String}) > 0
GROUP BY cause, datastore
ORDER BY stood_still_s DESC, cause ASC, datastore ASC
LIMIT {most:UInt32}
SETTINGS do_not_merge_across_partitions_select_final = 1;
