-- How slow was the LUN of a VM while the VM was stunned?
-- scope lun: the LUNs of the VM's datastore, on all hosts that see them. scope host: without inventory, the
-- slowest device of the VM's host. scope none: nothing was measured at that time.
-- param vm = : part of the VM's name
-- param most = 10 : number of stuns, the longest first
-- param margin_seconds = 60 : seconds before and after the stun that count too
-- param slow_ms = 25 : high DAVG on other hosts, milliseconds
WITH
    -- The longest of all revisions first: there are far more stuns than can be compared in a moment.
    long AS
    (
        SELECT duration_us
        FROM stuns_stored
        WHERE positionCaseInsensitive(vm, {vm:String}) > 0
        ORDER BY duration_us DESC
        LIMIT 10 * {most:UInt32} + 50
    ),

    candidates AS
    (
        SELECT datastore, vm, event_id
        FROM stuns_stored
        PREWHERE duration_us >= (SELECT min(duration_us) FROM long)
        WHERE positionCaseInsensitive(vm, {vm:String}) > 0
    ),

    stuns AS
    (
        SELECT event_id, vm, datastore, host, started_at, ended_at, duration_us, is_deleted
        FROM stuns_stored
        PREWHERE (datastore, vm, event_id) IN (SELECT datastore, vm, event_id FROM candidates)
        ORDER BY version DESC
        LIMIT 1 BY event_id
    ),

    longest AS
    (
        SELECT
            event_id, toString(vm) AS vm, toString(datastore) AS datastore, started_at, ended_at, duration_us,
            if(names.host = '', toString(stuns.host), names.host) AS at_host,
            started_at - INTERVAL {margin_seconds:UInt32} SECOND AS first_at,
            ended_at + INTERVAL {margin_seconds:UInt32} SECOND AS last_at
        FROM stuns
        LEFT JOIN host_aliases AS names ON stuns.host = names.alias
        WHERE NOT is_deleted
        ORDER BY duration_us DESC, ended_at ASC
        LIMIT {most:UInt32}
    ),

    -- A constant: it is worked out once.
    (
        SELECT
            groupArray((event_id, vm, datastore, started_at, ended_at, duration_us, at_host, first_at, last_at))
        FROM longest
    ) AS longest_stuns,

    chosen AS
    (
        SELECT
            each.1 AS event_id, each.2 AS vm, each.3 AS datastore, each.4 AS started_at,
            each.5 AS ended_at, each.6 AS duration_us, each.7 AS at_host, each.8 AS first_at,
            each.9 AS last_at
        FROM (SELECT arrayJoin(longest_stuns) AS each) AS one
    ),

    storage AS
    (
        SELECT *
        FROM vm_storage
        WHERE vm IN (SELECT vm FROM chosen) AND device != ''
    ),

    (
        SELECT groupUniqArray((chosen.event_id, storage.device))
        FROM chosen
        INNER JOIN storage ON chosen.vm = storage.vm
        WHERE
            chosen.datastore IN (storage.datastore, storage.datastore_uuid)
            AND storage.valid_from <= chosen.started_at
            AND (isNull(storage.valid_until) OR chosen.started_at < storage.valid_until)
    ) AS known_luns,

    luns AS
    (
        SELECT each.1 AS event_id, each.2 AS device
        FROM (SELECT arrayJoin(known_luns) AS each) AS one
    ),

    -- Where no LUN is known: the hosts, by every name.
    lone_hosts AS
    (
        SELECT at_host AS name
        FROM chosen
        WHERE event_id NOT IN (SELECT event_id FROM luns)
    ),

    near_hosts AS
    (
        SELECT name FROM lone_hosts
        UNION DISTINCT
        SELECT alias AS name
        FROM host_aliases
        WHERE host IN (SELECT name FROM lone_hosts)
    ),

    samples AS
    (
        SELECT
            if(names.host = '', measured.host, names.host) AS on_host,
            device, sampled_at, davg_ms, kavg_ms, commands_per_second
        FROM
        (
            SELECT host, device, sampled_at, davg_ms, kavg_ms, commands_per_second
            FROM latency_samples_stored FINAL
            -- Few devices of many, then few moments: by the sort key, before duplicates are looked for.
            PREWHERE
                object_class IN ('scsi_device', 'disk')
                AND (device IN (SELECT device FROM luns) OR host IN (SELECT name FROM near_hosts))
                AND sampled_at >= (SELECT min(first_at) FROM chosen) - INTERVAL 1 HOUR
                AND sampled_at <= (SELECT max(last_at) FROM chosen)
        ) AS measured
        LEFT JOIN host_aliases AS names ON measured.host = names.alias
        WHERE
            arrayExists(
                stun -> sampled_at >= stun.8 - INTERVAL 1 HOUR AND sampled_at <= stun.9, longest_stuns
            )
    ),

    measured AS
    (
        SELECT
            luns.event_id AS stun_id, 'lun' AS scope,
            on_host, samples.device AS device, sampled_at, davg_ms, kavg_ms, commands_per_second
        FROM luns
        INNER JOIN samples ON luns.device = samples.device
        UNION ALL
        SELECT
            chosen.event_id AS stun_id, 'host' AS scope,
            on_host, samples.device AS device, sampled_at, davg_ms, kavg_ms, commands_per_second
        FROM chosen
        INNER JOIN samples ON chosen.at_host = samples.on_host
        WHERE chosen.event_id NOT IN (SELECT event_id FROM luns)
    ),

    told AS
    (
        SELECT
            stun_id, scope, device,
            countIf(sampled_at >= first_at) AS samples_meanwhile,
            round(maxIf(davg_ms, sampled_at >= first_at), 1) AS peak_davg_ms,
            round(avgIf(davg_ms, sampled_at >= first_at), 1) AS mean_davg_ms,
            round(maxIf(kavg_ms, sampled_at >= first_at), 1) AS peak_kavg_ms,
            round(avgIf(commands_per_second, sampled_at >= first_at), 1) AS commands_per_second,
            round(avgIf(davg_ms, sampled_at < first_at), 1) AS hour_before_davg_ms,
            arraySort(groupUniqArrayIf(
                on_host,
                on_host != at_host AND sampled_at >= first_at AND davg_ms >= {slow_ms:Float64}
            )) AS slow_on_other_hosts
        FROM measured
        INNER JOIN chosen ON measured.stun_id = chosen.event_id
        WHERE sampled_at >= first_at - INTERVAL 1 HOUR AND sampled_at <= last_at
        GROUP BY stun_id, scope, device
        HAVING samples_meanwhile > 0
        -- Of a host's devices the slowest, of a datastore's LUNs all.
        ORDER BY peak_davg_ms DESC, device ASC
        LIMIT 1 BY stun_id, if(scope = 'host', '', device)
    )

SELECT
    chosen.vm AS vm,
    at_host AS host,
    chosen.ended_at AS ended_at,
    round(duration_us / 1e6, 3) AS duration_s,
    datastore,
    if(scope = '', 'none', scope) AS scope,
    device,
    peak_davg_ms,
    mean_davg_ms,
    hour_before_davg_ms,
    peak_kavg_ms,
    commands_per_second,
    samples_meanwhile,
    slow_on_other_hosts
FROM chosen
LEFT JOIN told ON chosen.event_id = told.stun_id
ORDER BY duration_us DESC, ended_at ASC, peak_davg_ms DESC, device ASC;
