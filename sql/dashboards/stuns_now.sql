-- One row is one stun of the last hour (span is 'last hour'), or of the same hour a week before ('a
-- week before'); see fleet_clock for what now is.
CREATE OR REPLACE VIEW stuns_now AS
WITH (SELECT as_of FROM fleet_clock) AS as_of
SELECT
    event_id,
    host,
    vm,
    datastore,
    ended_at,
    duration_s,
    cause,
    severity,
    if(ended_at > as_of - INTERVAL 1 HOUR, 'last hour', 'a week before') AS span
FROM stuns_by_time
WHERE
    (ended_at > as_of - INTERVAL 1 HOUR AND ended_at <= as_of)
    OR (ended_at > as_of - INTERVAL 169 HOUR AND ended_at <= as_of - INTERVAL 168 HOUR);
