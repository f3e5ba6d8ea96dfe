-- One row is one host or VM that inventory lists or that was ever heard: the denominator of every
-- figure. is_heard: in the last 24 hours; see fleet_clock. A VM that nothing happens to may write
-- nothing for days; a host always has something to log.
CREATE OR REPLACE VIEW heard_of AS
WITH
    (SELECT as_of FROM fleet_clock) AS as_of,
    (SELECT is_live FROM fleet_clock) AS is_live,
    (SELECT (groupArray(alias), groupArray(host)) FROM host_aliases) AS shown,

    said AS
    (
        SELECT
            'hosts' AS what, transform(toString(host), shown.1, shown.2, toString(host)) AS name,
            '' AS volume, name AS on_host, NULL AS heard_at, observed_at AS listed_at
        FROM inventory_stored
        WHERE host != '' AND NOT is_deleted
        UNION ALL
        SELECT
            'VMs' AS what, vm AS name, toString(datastore) AS volume,
            transform(toString(host), shown.1, shown.2, toString(host)) AS on_host,
            NULL AS heard_at, observed_at AS listed_at
        FROM inventory_stored
        WHERE kind = 'virtual_machine' AND NOT is_deleted
        UNION ALL
        SELECT
            'hosts' AS what, transform(toString(host), shown.1, shown.2, toString(host)) AS name,
            '' AS volume, name AS on_host, seen_at AS heard_at, NULL AS listed_at
        FROM owners_seen_stored
        WHERE host != ''
        UNION ALL
        SELECT
            'VMs' AS what, toString(vm) AS name, toString(datastore) AS volume,
            transform(toString(host), shown.1, shown.2, toString(host)) AS on_host,
            seen_at AS heard_at, NULL AS listed_at
        FROM owners_seen_stored
        WHERE vm != ''
    )

SELECT
    what,
    name,
    argMax(on_host, coalesce(heard_at, listed_at)) AS host,
    if(what = 'VMs', name, '') AS vm,
    volume AS datastore,
    max(listed_at) AS last_listed_at,
    max(heard_at) AS last_heard_at,
    isNotNull(last_listed_at) AS is_in_inventory,
    -- What was replayed counts as heard: nobody sends it again.
    isNotNull(last_heard_at) AND (NOT is_live OR last_heard_at > as_of - INTERVAL 1 DAY) AS is_heard
FROM said
GROUP BY what, name, volume;
