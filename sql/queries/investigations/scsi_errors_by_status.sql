-- Which SCSI errors occur on which devices, and on how many hosts?
-- param device = : part of the device's name
-- param most = 20 : number of rows
SELECT
    device,
    concat('H:', host_status, ' D:', device_status, ' P:', plugin_status) AS status,
    sense,
    opcode,
    sum(scsi_errors.count) AS failures,
    uniqExact(host) AS hosts,
    arraySort(groupUniqArrayIf(splitByChar(':', path)[1], path != '')) AS adapters,
    min(started_at) AS first_at,
    max(ended_at) AS last_at
FROM scsi_errors
WHERE NOT is_expected AND positionCaseInsensitive(device, {device:String}) > 0
GROUP BY device, status, sense, opcode
ORDER BY failures DESC, device ASC, status ASC
LIMIT {most:UInt32};
