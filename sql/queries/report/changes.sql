-- Changes from 72 hours before the incident to its end
SELECT
    change_id,
    near.at AS changed_at,
    told_by,
    kind,
    what AS title,
    arrayStringConcat(
        arrayMap(
            names -> concat(
                arrayStringConcat(arraySlice(arraySort(names), 1, 5), ', '),
                if(length(names) > 5, concat(' and ', toString(length(names) - 5), ' more'), '')
            ),
            arrayFilter(names -> notEmpty(names), [near.hosts, near.devices, near.datastores])
        ),
        ', '
    ) AS concerns
FROM changes_near(
    incident = toString({incident:UUID}), hours = 72, until = toString({until_at:DateTime64(6)})
) AS near
WHERE told_by != 'paths'
ORDER BY changed_at DESC, told_by ASC, kind ASC, title ASC
LIMIT 50;
