-- One row is a host's name that a sender used besides another, while somebody sends in that name alone:
-- a line may claim any host, and this is who claimed whose. A relay looks alike where a host sends both
-- to it and past it. The short and the full form of a name are one.
CREATE OR REPLACE VIEW borrowed_names AS
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
