-- Which LUNs have the FIXED path policy (or MRU) although their array wants round robin?
-- Round robin is wanted where the array answers as ALUA, or its vendor asks for it from ESX 4 on;
-- that list is a parameter: look into your array's own guide before you change anything.
-- param vendors = HITACHI,DGC,EMC,NETAPP,PURE,3PARdata,COMPELNT,Nimble,IBM,HPE : as esxcli prints them
-- param device = : part of the device's name
-- param most = 50 : how many rows
SELECT
    device,
    arraySort(groupUniqArrayIf(toString(datastore), datastore != '')) AS datastores,
    trimBoth(coalesce(any(vendor), '')) AS of_vendor,
    trimBoth(coalesce(any(model), '')) AS of_model,
    coalesce(any(array_type), '') AS of_array_type,
    arraySort(groupUniqArrayIf(assumeNotNull(path_policy), is_single)) AS policies,
    uniqExactIf(host, is_single) AS hosts_concerned,
    uniqExact(host) AS hosts_known,
    arraySort(groupUniqArrayIf(5)(host, is_single)) AS hosts,
    concat('esxcli storage nmp device set --device ', device, ' --psp VMW_PSP_RR') AS to_change
FROM
(
    SELECT
        *,
        match(coalesce(path_policy, ''), 'FIXED|MRU') AS is_single,
        match(coalesce(array_type, ''), 'ALUA')
        OR has(splitByChar(',', {vendors:String}), trimBoth(coalesce(vendor, ''))) AS is_round_robin_wanted
    FROM inventory
    WHERE
        isNull(valid_until) AND NOT coalesce(is_local, false)
        AND positionCaseInsensitive(device, {device:String}) > 0
) AS luns
WHERE is_round_robin_wanted
GROUP BY device
HAVING hosts_concerned > 0
ORDER BY hosts_concerned DESC, device ASC
LIMIT {most:UInt32};
