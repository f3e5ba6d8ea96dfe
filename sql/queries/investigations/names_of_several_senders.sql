-- Which host names come from several senders, and which senders use several names?
-- host is the name in the line, peer the address of the sender: a line may claim any host. A relay uses many
-- names; a host with several addresses has one name and several peers. Check all other cases. The short and
-- the full form of a name count as one.
-- param host = : part of the host's name
-- param peer = : part of the sender's address
-- param most = 50 : number of rows
WITH
    named AS
    (
        SELECT
            toString(peer) AS sender,
            if(match(host, '^[0-9.]+$|:'), toString(host), lower(splitByChar('.', toString(host))[1])) AS name,
            max(seen_at) AS last_seen_at
        FROM owners_seen_stored
        WHERE peer != '' AND host != ''
        GROUP BY sender, name
    )

SELECT
    is_what,
    whose,
    count() AS others,
    arraySort(groupArray(other)) AS who,
    max(last_seen_at) AS last_heard_at
FROM
(
    SELECT 'name_of_several_senders' AS is_what, name AS whose, sender AS other, name, sender, last_seen_at
    FROM named
    UNION ALL
    SELECT 'sender_of_several_names' AS is_what, sender AS whose, name AS other, name, sender, last_seen_at
    FROM named
) AS seen_from_both
GROUP BY is_what, whose
HAVING
    others > 1
    AND countIf(positionCaseInsensitive(name, {host:String}) > 0) > 0
    AND countIf(positionCaseInsensitive(sender, {peer:String}) > 0) > 0
ORDER BY is_what ASC, others DESC, whose ASC
LIMIT {most:UInt32};
