-- One row is one extent of a datastore on one LUN as one host saw it, from valid_from until valid_until.
-- The first known state also applies to earlier times. A row ends when a later list of the host leaves
-- the extent out, or shows another datastore on the same partition. Extents of log lines count only if
-- neither esxcli nor vCenter listed the LUN. `inventory` has more columns about the LUN.
CREATE OR REPLACE VIEW host_extents
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    items AS
    (
        SELECT
            if(names.host = '', toString(said.host), names.host) AS said_by,
            said.kind AS kind,
            said.device AS on_device,
            coalesce(said.partition, 0) AS part,
            toString(said.datastore_uuid) AS volume_uuid,
            toString(said.datastore) AS volume_name,
            -- If a line names no partition, one LUN may have several datastores.
            if(isNull(said.partition), volume_name, '') AS unplaced,
            said.told_by = 'log' AS is_of_log,
            said.observed_at AS said_at,
            (said.event_id, said.evidence, said.detected_at, said.run_id) AS origin
        FROM inventory_stored AS said FINAL
        LEFT JOIN host_aliases AS names ON said.host = names.alias
        WHERE said.kind = 'extent' OR (
            said.kind = 'listing' AND said.told_by IN ('vmfs extent list', 'vcenter extents')
        )
    ),

    extents AS
    (
        SELECT
            *,
            arraySort(groupUniqArrayIf(said_at, kind = 'listing') OVER (PARTITION BY said_by)) AS listed_at,
            min(is_of_log) OVER (PARTITION BY said_by, on_device, kind) AS is_known_by_log_alone
        FROM items
    ),

    followed AS
    (
        SELECT
            *,
            lagInFrame(toNullable(said_at)) OVER earlier AS before_at,
            lagInFrame((volume_uuid, volume_name)) OVER earlier AS volume_before
        FROM extents
        WHERE kind = 'extent' AND (NOT is_of_log OR is_known_by_log_alone)
        WINDOW earlier AS (
            PARTITION BY said_by, on_device, part, unplaced ORDER BY said_at
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        )
    ),

    numbered AS
    (
        SELECT
            *,
            sum(
                isNull(before_at)
                OR volume_before != (volume_uuid, volume_name)
                OR arrayExists(listed -> listed > before_at AND listed < said_at, listed_at)
            ) OVER (
                PARTITION BY said_by, on_device, part, unplaced ORDER BY said_at
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS period
        FROM followed
    ),

    periods AS
    (
        SELECT
            said_by, on_device, part, unplaced, period,
            any(volume_uuid) AS uuid,
            any(volume_name) AS name,
            any(listed_at) AS lists,
            min(said_at) AS first_at,
            max(said_at) AS last_at,
            argMin(origin, said_at) AS first_origin
        FROM numbered
        GROUP BY said_by, on_device, part, unplaced, period
    )

SELECT
    said_by AS host,
    on_device AS device,
    part AS partition,
    uuid AS datastore_uuid,
    name AS datastore,
    first_at AS observed_at,
    last_at AS last_observed_at,
    if(
        period > 1 OR arrayExists(listed -> listed < first_at, lists),
        first_at,
        toDateTime64(0, 6, 'UTC')
    ) AS valid_from,
    nullIf(
        arrayMin(arrayFilter(
            each -> each > last_at,
            [
                leadInFrame(first_at) OVER (
                    PARTITION BY said_by, on_device, part, unplaced ORDER BY first_at
                    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
                ),
                arrayFirst(listed -> listed > last_at, lists),
                toDateTime64('2299-12-31 00:00:00', 6, 'UTC')
            ]
        )),
        toDateTime64('2299-12-31 00:00:00', 6, 'UTC')
    ) AS valid_until,
    first_origin.1 AS event_id,
    first_origin.2 AS evidence,
    first_origin.3 AS detected_at,
    first_origin.4 AS run_id
FROM periods;
