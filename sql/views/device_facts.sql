-- One row is one device: its class, and its datastore, in the newest inventory of any host. is_local: an
-- inventory lists it as a local disk or as a boot device.
CREATE OR REPLACE VIEW device_facts
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    toString(device) AS device,
    argMaxIf(
        multiIf(coalesce(is_boot, false), 'boot', coalesce(is_ssd, false), 'flash', 'disk'),
        observed_at,
        kind = 'device' AND isNotNull(is_ssd)
    ) AS said_class,
    if(said_class = '', 'unknown', said_class) AS device_class,
    toString(argMaxIf(datastore, observed_at, kind = 'extent' AND datastore != '')) AS datastore,
    max(kind = 'device' AND (coalesce(is_local, false) OR coalesce(is_boot, false))) AS is_local
FROM inventory_stored
WHERE kind IN ('device', 'extent') AND device != '' AND NOT is_deleted
GROUP BY device;
