-- One row is a host name that a sender uses besides its own, while another sender uses only that name.
-- A line may claim any host name; this view shows who claimed whose. A relay looks the same if a host
-- sends both through it and directly. The short and the full form of a name count as one.
CREATE OR REPLACE VIEW borrowed_names
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    named AS
    (
        SELECT
            toString(peer) AS sender,
            if(match(host, '^[0-9.]+$|:'), toString(host), lower(splitByChar('.', toString(host))[1])) AS name,
            argMax(host, seen_at) AS shown,
            max(seen_at) AS heard_at,
            count() OVER (PARTITION BY sender) AS names
        FROM owners_seen_stored
        WHERE peer != '' AND host != ''
        GROUP BY sender, name
    ),

    owned AS
    (
        SELECT *, arraySort(groupArrayIf(sender, names = 1) OVER (PARTITION BY name)) AS owners
        FROM named
    )

SELECT
    toString(shown) AS host,
    sender AS peer,
    owners,
    toUInt64(names) AS names,
    toDateTime64(heard_at, 6, 'UTC') AS last_heard_at
FROM owned
WHERE names > 1 AND notEmpty(owners);
