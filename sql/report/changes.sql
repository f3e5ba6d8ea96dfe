-- What was changed from 72 hours before it to its end?
SELECT
    change_id,
    changed_at,
    kind,
    title,
    arrayStringConcat(arrayFilter(each -> each != '', [toString(host), toString(device), toString(datastore)]), ', ')
    AS concerns
FROM changes
WHERE
    changed_at >= {opened_at:DateTime64(6)} - INTERVAL 72 HOUR
    AND changed_at <= {until_at:DateTime64(6)}
ORDER BY changed_at DESC
LIMIT 50;
