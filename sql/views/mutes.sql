-- One row is one mute: a host, device or datastore without alerts until a time, and why. Each non-empty
-- name is muted by itself. is_active: neither expired nor removed. A host in maintenance mode of vCenter
-- is muted until it leaves maintenance mode or somebody removes the mute, for 30 days at most.
CREATE OR REPLACE VIEW mutes
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    said AS
    (
        SELECT
            toString(host) AS host_name,
            assumeNotNull(is_in_maintenance) AS is_in,
            observed_at,
            lagInFrame(toNullable(is_in)) OVER earlier AS was_in,
            minIf(observed_at, NOT is_in) OVER later AS left_at
        FROM inventory_stored FINAL
        WHERE kind = 'host' AND isNotNull(is_in_maintenance)
        WINDOW
            earlier AS (
                PARTITION BY host ORDER BY observed_at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
            ),
            later AS (
                PARTITION BY host ORDER BY observed_at
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            )
    ),

    maintained AS
    (
        SELECT
            reinterpretAsUUID(MD5(concat('maintenance|', host_name, '|', toString(observed_at)))) AS mute_id,
            host_name AS host,
            '' AS device,
            '' AS datastore,
            'in maintenance' AS reason,
            'vcenter' AS muted_by,
            toDateTime64(observed_at, 3, 'UTC') AS muted_at,
            muted_at + INTERVAL 30 DAY AS expires_at,
            if(left_at > observed_at, toNullable(toDateTime64(left_at, 3, 'UTC')), NULL) AS lifted_at,
            if(isNull(lifted_at), '', 'vcenter') AS lifted_by
        FROM said
        WHERE is_in AND NOT coalesce(was_in, FALSE)
    )

SELECT
    mute_id,
    host,
    device,
    datastore,
    reason,
    muted_by,
    muted_at,
    expires_at,
    lifted_at,
    lifted_by,
    isNull(lifted_at) AND now64(3) < expires_at AS is_active
FROM
(
    SELECT
        mute_id, host, device, datastore, reason, toString(muted_by) AS muted_by, muted_at,
        expires_at, lifted_at, toString(lifted_by) AS lifted_by
    FROM mutes_stored FINAL
    UNION ALL
    SELECT *
    FROM maintained
    WHERE mute_id NOT IN (SELECT mute_id FROM mutes_stored)
) AS known;
