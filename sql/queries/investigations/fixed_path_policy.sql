-- Which LUNs use the path policy FIXED (or MRU) although their array needs round robin?
-- An array needs round robin if it supports ALUA, or if its vendor recommends it from ESX 4 on. The list of
-- vendors is a parameter: check the guide of your array before you change anything. Round robin under an RDM of
-- a Windows cluster is unsupported before ESXi 5.5. to_change is empty unless every host with the LUN has listed
-- its raw device mappings and the LUN is in none of them.
-- param vendors = HITACHI,DGC,EMC,NETAPP,PURE,3PARdata,COMPELNT,Nimble,IBM,HPE : vendors as in esxcli
-- param device = : part of the device's name
-- param most = 50 : number of rows
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
    if(
        count() = countIf(is_rdm = false AND NOT coalesce(is_perennially_reserved, false)),
        concat('esxcli storage nmp device set --device ', device, ' --psp VMW_PSP_RR'),
        ''
    ) AS to_change,
    max(is_rdm) AS is_raw_mapped
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
