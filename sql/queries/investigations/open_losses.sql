-- Which paths, devices and volumes are lost now, and since when?
-- param host = : part of the host's name
-- param until = 2100-01-01 : as of this time, UTC; at most now
WITH least({until:DateTime64(6, 'UTC')}, now64(6, 'UTC')) AS until_at
SELECT
    host,
    kind,
    if(path != '', path, if(device != '', device, datastore)) AS lost,
    device,
    datastore,
    started_at,
    dateDiff('second', started_at, until_at) AS lost_for_s
FROM path_events
WHERE
    isNull(ended_at) AND started_at <= until_at
    AND kind IN ('path_dead', 'apd_start', 'apd_timeout', 'pdl', 'lost_access', 'heartbeat_timeout')
    AND positionCaseInsensitive(host, {host:String}) > 0
ORDER BY started_at ASC, host ASC, lost ASC;
