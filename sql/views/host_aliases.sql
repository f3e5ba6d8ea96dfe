-- One row is one other name or address of a host: alias may appear in lines, host is shown.
--   SELECT if(a.host = '', s.host, a.host) FROM stuns AS s LEFT JOIN host_aliases AS a ON a.alias = s.host
-- Sources: `stunwatch inventory load`; names that begin with another name (esx1 and esx1.lab.example,
-- unless two full names do); an address that sends only lines of this host.
CREATE OR REPLACE VIEW host_aliases
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    -- Names with the same first label are resolved below.
    said AS
    (
        SELECT host AS name, '' AS alias, '' AS told_by, 0 AS trust, toDateTime64(0, 6, 'UTC') AS observed_at
        FROM owners_seen_stored
        GROUP BY host
        UNION ALL
        SELECT
            host AS name, alias, if(kind = 'host_alias', told_by, '') AS told_by,
            kind = 'host_alias' AS trust, max(observed_at) AS observed_at
        FROM inventory_stored FINAL
        GROUP BY ALL
        UNION ALL
        SELECT any(host) AS name, peer AS alias, 'peer' AS told_by, 3 AS trust, max(seen_at) AS observed_at
        FROM owners_seen_stored
        WHERE peer != '' AND host != ''
        GROUP BY peer
        HAVING uniqExact(lower(splitByChar('.', toString(host))[1])) = 1
    ),

    labelled AS
    (
        SELECT
            -- By length; if spellings differ only in case, the one in lower case last.
            arraySort(each -> (length(each), each), groupUniqArray(toString(name))) AS names,
            groupArrayIf((toString(name), toString(alias), toString(told_by), trust, observed_at), alias != '') AS told
        FROM said
        WHERE name != ''
        GROUP BY if(match(name, '^[0-9.]+$|:'), toString(name), lower(splitByChar('.', toString(name))[1])) AS label
    ),

    fullest AS
    (
        SELECT
            told,
            -- The fuller forms of a name begin with it. The last one is shown if it begins with all the others.
            arrayMap(
                name -> (
                    name,
                    arrayFilter(
                        each -> startsWith(concat(lower(each), '.'), concat(lower(name), '.')), names
                    ) AS forms,
                    if(
                        arrayAll(
                            each -> startsWith(concat(lower(forms[-1]), '.'), concat(lower(each), '.')),
                            forms
                        ),
                        forms[-1],
                        name
                    )
                ),
                names
            ) AS shown_as
        FROM labelled
    )

SELECT
    row.1 AS alias,
    row.2 AS host,
    row.3 AS told_by,
    row.5 AS observed_at
FROM
(
    SELECT
        arrayJoin(arrayConcat(
            arrayMap(
                each -> (each.1, each.3, 'name', 2, toDateTime64(0, 6, 'UTC')), shown_as
            ),
            arrayMap(
                each -> (
                    each.2,
                    arrayFirst(name -> name.1 = each.1, shown_as).3,
                    each.3,
                    each.4,
                    each.5
                ),
                told
            )
        )) AS row
    FROM fullest
) AS known
WHERE row.1 != row.2
ORDER BY row.4 ASC, row.5 DESC, row.2 ASC
LIMIT 1 BY alias;
