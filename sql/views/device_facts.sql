-- One row is one device: what it is made of, and the datastore on it, as was said last by any host.
CREATE OR REPLACE VIEW device_facts AS
SELECT
    toString(device) AS device,
    argMaxIf(
        multiIf(coalesce(is_boot, false), 'boot', coalesce(is_ssd, false), 'flash', 'disk'),
        observed_at,
        kind = 'device' AND isNotNull(is_ssd)
    ) AS said_class,
    if(said_class = '', 'unknown', said_class) AS device_class,
    toString(argMaxIf(datastore, observed_at, kind = 'extent' AND datastore != '')) AS datastore
FROM inventory_stored
WHERE kind IN ('device', 'extent') AND device != '' AND NOT is_deleted
GROUP BY device;
