-- Which paths, devices and volumes are lost now, and since when?
-- param host = : part of the host's name
SELECT
    host,
    kind,
    if(path != '', path, if(device != '', device, datastore)) AS lost,
    device,
    datastore,
    started_at,
    dateDiff('second', started_at, now64(6)) AS lost_for_s
FROM path_events
WHERE
    ended_at IS NULL
    AND kind IN ('path_dead', 'apd_start', 'apd_timeout', 'pdl', 'lost_access', 'heartbeat_timeout')
    AND positionCaseInsensitive(host, {host:String}) > 0
ORDER BY started_at ASC, host ASC, lost ASC;
