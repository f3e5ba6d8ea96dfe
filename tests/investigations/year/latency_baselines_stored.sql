-- The baselines of 53 weeks: DAVG and KAVG of the LUNs of 1 000 hosts.
INSERT INTO latency_baselines_stored (object_class, host, device, metric, week, logarithms)
WITH
    number % 10000 AS thing,
    intDiv(number, 10000) AS step,
    thing % 1000 AS h,
    intDiv(h, 20) * 10 + intDiv(thing, 1000) AS lun,
    step % 2 = 0 AS is_davg,
    if(is_davg, if(lun % 97 = 0, 1000, 3), 0.1) AS usual_ms
SELECT
    'scsi_device',
    concat('esx', leftPad(toString(h), 4, '0'), '.lab.example'),
    concat('naa.6006', leftPad(toString(lun), 28, '0')),
    if(is_davg, 'davg', 'kavg'),
    toMonday({now:DateTime64(3, 'UTC')}) - 7 * intDiv(step, 2),
    arrayReduce(
        'quantilesTDigestState(0.25, 0.5, 0.75)',
        arrayMap(each -> log(usual_ms * (0.5 + each / 20)), range(20))
    )
FROM numbers({first:UInt64}, {rows:UInt64});
