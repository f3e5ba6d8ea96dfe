-- One row is what "now" means. Where lines come in live it is now; where only old logs were replayed,
-- the clock stands at the newest event, so that "the last hour" is their last hour.
CREATE OR REPLACE VIEW fleet_clock AS
WITH
    (
        SELECT max(last_received_at)
        FROM source_activity_stored
        WHERE bucket >= (SELECT max(heard.bucket) FROM source_activity_stored AS heard)
    ) AS live_at,
    greatest(
        (SELECT max(ended_at) FROM stuns_by_time_stored),
        (SELECT max(ended_at) FROM reservation_conflicts_stored),
        (SELECT max(started_at) FROM latency_episodes_stored),
        (SELECT max(opened_at) FROM incidents_stored)
    ) AS newest_at
SELECT
    toUnixTimestamp(live_at) > 0 AS is_live,
    multiIf(
        is_live, now64(6, 'UTC'), toUnixTimestamp(newest_at) > 0, newest_at, now64(6, 'UTC')
    ) AS as_of,
    if(is_live, 'now', 'the newest event of what was replayed') AS now_is,
    newest_at AS newest_event_at,
    if(is_live, live_at, NULL) AS heard_live_at,
    if(is_live, dateDiff('second', live_at, now64(6, 'UTC')), NULL) AS lag_s;
