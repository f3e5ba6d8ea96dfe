-- One row is one datastore on one LUN as one host saw it, from valid_from until valid_until, or a LUN
-- without datastore (datastore is empty). The state at a time t:
--   valid_from <= t AND (valid_until IS NULL OR t < valid_until)
-- It was observed between observed_at and last_observed_at; for t < observed_at the row is an assumption
-- (see host_extents). Each column about the LUN has its newest value within the row's time. is_rdm: a VM
-- uses the LUN as an RDM; false if the host's raw device mappings do not list it, null if they are unknown.
CREATE OR REPLACE VIEW inventory
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    items AS
    (
        SELECT
            said.*,
            if(names.host = '', toString(said.host), names.host) AS said_by
        FROM inventory_stored AS said FINAL
        LEFT JOIN host_aliases AS names ON said.host = names.alias
    ),

    -- Each list is read once: every use of `items` or `host_extents` adds four reads to the plan.
    described AS
    (
        SELECT
            said_by AS host, device,
            groupArray((
                observed_at, vendor, model, size_mb, is_ssd, is_local, is_boot, is_perennially_reserved,
                multipath_plugin, array_type, path_policy, path_policy_config, vaai, vaai_ats, vaai_clone,
                vaai_zero, vaai_delete, transport, paths, targets, other_names
            )) AS descriptions,
            min(observed_at) AS first_at,
            max(observed_at) AS last_at,
            argMin(event_id, observed_at) AS first_event,
            argMin(detected_at, observed_at) AS first_detected,
            argMin(run_id, observed_at) AS first_run
        FROM items
        WHERE kind = 'device'
        GROUP BY said_by, device
    ),

    placed AS
    (
        SELECT
            host, device,
            groupArray((
                toString(datastore_uuid), toString(datastore), observed_at, last_observed_at, valid_from, valid_until,
                partition, event_id, evidence, detected_at, toString(run_id)
            )) AS extents,
            assumeNotNull(max(valid_until)) AS ended_at,
            countIf(isNull(valid_until)) AS lasting
        FROM host_extents
        GROUP BY host, device
    ),

    luns AS
    (
        SELECT
            host, device, descriptions,
            arrayConcat( -- noqa: AL03
                extents,
                -- A LUN that has no datastore, or none any more.
                if(lasting = 0 AND notEmpty(descriptions), [(
                    '', '', greatest(first_at, ended_at), greatest(last_at, ended_at), ended_at, NULL,
                    0, first_event, emptyArrayString(), first_detected, toString(first_run)
                )], [])
            ) AS rows
        FROM described
        FULL JOIN placed USING (host, device)
    ),

    raw_device_mappings AS
    (
        SELECT
            kind, said_by, device, observed_at,
            max(observed_at) OVER (PARTITION BY said_by) AS newest_at
        FROM items
        WHERE told_by IN ('vmkfstools -q', 'vcenter raw device mappings')
    ),

    mappings AS
    (
        SELECT
            -- The rest identifies the device, whatever its LUN number: vml.02000100006006…
            groupUniqArrayIf(substring(device, 15), kind = 'raw_device_mapping') AS mapped,
            groupUniqArrayIf(said_by, kind = 'listing') AS listed_by
        FROM raw_device_mappings
        WHERE observed_at = newest_at
    ),

    said AS
    (
        SELECT
            host, device,
            row.1 AS datastore_uuid, row.2 AS datastore, row.3 AS observed_at, row.4 AS last_observed_at,
            row.5 AS valid_from, row.6 AS valid_until, row.7 AS partition, row.8 AS event_id,
            row.9 AS evidence, row.10 AS detected_at, row.11 AS run_id,
            described_as.1 AS said_at,
            described_as.2 AS vendor, described_as.3 AS model, described_as.4 AS size_mb, described_as.5 AS is_ssd,
            described_as.6 AS is_local, described_as.7 AS is_boot, described_as.8 AS is_perennially_reserved,
            described_as.9 AS multipath_plugin, described_as.10 AS array_type, described_as.11 AS path_policy,
            described_as.12 AS path_policy_config, described_as.13 AS vaai, described_as.14 AS vaai_ats,
            described_as.15 AS vaai_clone, described_as.16 AS vaai_zero, described_as.17 AS vaai_delete,
            described_as.18 AS transport, described_as.19 AS paths, described_as.20 AS targets,
            described_as.21 AS other_names,
            -- The last item before the end of the row, else the first one after it.
            isNull(valid_until) OR said_at < valid_until AS is_timely,
            (is_timely, if(is_timely, 1, -1) * toUnixTimestamp64Micro(said_at)) AS rank
        FROM
        (
            SELECT host, device, arrayJoin(rows) AS row, descriptions
            FROM luns
        ) AS each_row
        LEFT ARRAY JOIN descriptions AS described_as
    )

SELECT
    host,
    device,
    datastore_uuid,
    datastore,
    observed_at,
    last_observed_at,
    valid_from,
    valid_until,
    partition,
    argMax(said.vendor, rank) AS vendor,
    argMax(said.model, rank) AS model,
    argMax(said.size_mb, rank) AS size_mb,
    argMax(said.is_ssd, rank) AS is_ssd,
    argMax(said.is_local, rank) AS is_local,
    argMax(said.is_boot, rank) AS is_boot,
    argMax(said.is_perennially_reserved, rank) AS is_perennially_reserved,
    argMaxIf(said.other_names, rank, notEmpty(said.other_names)) AS other_names,
    multiIf(
        hasAny(arrayMap(name -> substring(name, 15), other_names), any(mapped)), true,
        arrayExists(unit -> startsWith(unit, extract(device, '^(?:naa|eui)[.](.+)')), any(mapped))
        AND match(device, '^(?:naa|eui)[.].'), true,
        has(any(listed_by), host), false,
        NULL
    ) AS is_rdm,
    multiIf(is_boot, 'boot', is_ssd, 'flash', isNotNull(is_ssd), 'disk', 'unknown') AS device_class,
    argMax(said.multipath_plugin, rank) AS multipath_plugin,
    argMax(said.array_type, rank) AS array_type,
    argMax(said.path_policy, rank) AS path_policy,
    argMax(said.path_policy_config, rank) AS path_policy_config,
    argMax(said.vaai, rank) AS vaai,
    argMax(said.vaai_ats, rank) AS vaai_ats,
    argMax(said.vaai_clone, rank) AS vaai_clone,
    argMax(said.vaai_zero, rank) AS vaai_zero,
    argMax(said.vaai_delete, rank) AS vaai_delete,
    argMax(said.transport, rank) AS transport,
    argMaxIf(said.paths, rank, notEmpty(said.paths)) AS paths,
    argMaxIf(said.targets, rank, notEmpty(said.targets)) AS targets,
    any(said.event_id) AS event_id,
    any(said.evidence) AS evidence,
    any(said.detected_at) AS detected_at,
    any(said.run_id) AS run_id
FROM said
CROSS JOIN mappings
GROUP BY
    host, device, datastore_uuid, datastore, observed_at, last_observed_at, valid_from,
    valid_until, partition;
