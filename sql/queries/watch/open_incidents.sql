-- Which incidents are open, the most severe first?
-- param with_history = 0 : 1 also shows incidents of replays
SELECT
    toString(incident_id) AS incident_id,
    opened_at,
    state,
    scope,
    severity,
    verdict,
    confidence,
    length(hosts) AS affected_hosts,
    reporting_hosts,
    run_id
FROM incidents
WHERE state = 'open' AND (run_id = 'live' OR {with_history:Bool})
ORDER BY
    indexOf(['critical', 'warning', 'notice'], severity) ASC,
    opened_at DESC,
    incident_id ASC
LIMIT 200;
