-- Are VMs with changed-block tracking stunned longer than those without?
-- One row is one cause with tracking on, off or unknown, and quiesced or not. Compare what has enough
-- stuns; guests that write much are stunned longer in any case.
-- param days = 30 : how far back
-- param until = 2100-01-01 : up to when, UTC; the last stun at the latest
-- param vm = : part of the VM's name
-- param datastore = : part of the datastore's name
WITH
    least({until:DateTime64(6, 'UTC')}, (SELECT max(ended_at) FROM stuns_stored), now64(6, 'UTC')) AS until_at
SELECT
    cause,
    multiIf(isNull(is_cbt), 'unknown', is_cbt, 'on', 'off') AS cbt,
    multiIf(isNull(is_quiesced), 'unknown', is_quiesced, 'yes', 'no') AS quiesced,
    count() AS stuns,
    uniqExact((datastore, vm)) AS vms,
    round(quantileExact(0.5)(duration_us) / 1e6, 3) AS p50_s,
    round(quantileExact(0.99)(duration_us) / 1e6, 3) AS p99_s,
    round(max(duration_us) / 1e6, 3) AS worst_s
FROM stuns_stored FINAL
PREWHERE ended_at > until_at - toIntervalDay({days:UInt32}) AND ended_at <= until_at
WHERE
    startsWith(cause, 'snapshot_')
    AND positionCaseInsensitive(vm, {vm:String}) > 0
    AND positionCaseInsensitive(datastore, {datastore:String}) > 0
GROUP BY cause, cbt, quiesced
ORDER BY cause ASC, quiesced ASC, worst_s DESC, cbt ASC;
