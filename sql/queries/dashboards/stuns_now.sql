-- One row is one stun of the last hour (span is 'last hour'), or of the same hour a week before (span is 'a
-- week before'); see fleet_clock for the reference time. shown_at: when it would have ended if the reference
-- time was now, which is how Superset counts a last hour.
CREATE OR REPLACE VIEW stuns_now
DEFINER = transform SQL SECURITY DEFINER AS
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
    if(ended_at > as_of - INTERVAL 1 HOUR, 'last hour', 'a week before') AS span,
    addMicroseconds(ended_at, dateDiff('microsecond', as_of, now64(6))) AS shown_at
FROM stuns_by_time
WHERE
    (ended_at > as_of - INTERVAL 1 HOUR AND ended_at <= as_of)
    OR (ended_at > as_of - INTERVAL 169 HOUR AND ended_at <= as_of - INTERVAL 168 HOUR);
