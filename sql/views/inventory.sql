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

    described AS
    (
        SELECT
            said_by, device,
            min(observed_at) AS first_at,
            max(observed_at) AS last_at,
            argMin(event_id, observed_at) AS first_event,
            argMin(detected_at, observed_at) AS first_detected,
            argMin(run_id, observed_at) AS first_run
        FROM items
        WHERE kind = 'device'
        GROUP BY said_by, device
    ),

    ended AS
    (
        SELECT
            host, device,
            assumeNotNull(max(valid_until)) AS ended_at,
            countIf(isNull(valid_until)) AS lasting
        FROM host_extents
        GROUP BY host, device
    ),

    places AS
    (
        SELECT
            host, device, datastore_uuid, datastore, observed_at, last_observed_at, valid_from,
            valid_until, partition, event_id, evidence, detected_at, run_id
        FROM host_extents
        UNION ALL
        -- A LUN that has no datastore, or none any more.
        SELECT
            described.said_by AS host, described.device AS device, '' AS datastore_uuid, '' AS datastore,
            greatest(described.first_at, ended_at) AS observed_at,
            greatest(described.last_at, ended_at) AS last_observed_at,
            ended_at AS valid_from, NULL AS valid_until, 0 AS partition, -- noqa: AL03
            described.first_event AS event_id, emptyArrayString() AS evidence,
            described.first_detected AS detected_at, described.first_run AS run_id
        FROM described
        LEFT JOIN ended ON described.said_by = ended.host AND described.device = ended.device
        WHERE lasting = 0
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

    device_items AS
    (
        SELECT
            said_by, device AS said_device, observed_at AS said_at, vendor, model, size_mb,
            is_ssd, is_local, is_boot, is_perennially_reserved, multipath_plugin, array_type,
            path_policy, path_policy_config, vaai, vaai_ats, vaai_clone, vaai_zero,
            vaai_delete, transport, paths, targets, other_names
        FROM items
        WHERE kind = 'device'
    ),

    said AS
    (
        SELECT
            places.*,
            device_items.*,
            -- The last item before the end of the row, else the first one after it.
            isNull(valid_until) OR said_at < valid_until AS is_timely,
            (is_timely, if(is_timely, 1, -1) * toUnixTimestamp64Micro(said_at)) AS rank
        FROM places
        LEFT JOIN device_items
            ON places.host = device_items.said_by AND places.device = device_items.said_device
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
