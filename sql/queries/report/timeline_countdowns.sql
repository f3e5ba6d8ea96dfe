-- Sync CR count-downs on the incident's hosts: retries left, outcome
WITH
    told AS
    (
        SELECT hosts, evidence_ids
        FROM incidents
        WHERE incident_id = {incident:UUID}
    ),

    names AS
    (
        SELECT arrayJoin(hosts) AS name FROM told
        UNION DISTINCT
        SELECT alias AS name
        FROM host_aliases
        WHERE host IN (SELECT arrayJoin(hosts) FROM told)
    )

SELECT
    outcome,
    event_id IN (SELECT arrayJoin(evidence_ids) FROM told) AS belongs,
    first_remaining,
    last_remaining,
    min(started_at) AS first_at,
    max(coalesce(ended_at, started_at)) AS last_at,
    count() AS countdowns
FROM reservation_conflicts
WHERE
    dialect = 'sync_cr'
    AND isNotNull(last_remaining)
    AND started_at >= {from_at:DateTime64(6)} AND started_at <= {until_at:DateTime64(6)}
    AND (belongs OR host IN (SELECT name FROM names))
GROUP BY
    outcome,
    belongs,
    first_remaining,
    last_remaining,
    intDiv(toUnixTimestamp(started_at), {step_s:UInt32})
ORDER BY belongs DESC, first_at ASC
LIMIT 2000;
