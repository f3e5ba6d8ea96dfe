-- One row is the reference time. With live lines it is now; with replayed logs only, it is the newest
-- event, so that "the last hour" is their last hour. It is never later than now, even if a file holds
-- events of the future.
CREATE OR REPLACE VIEW fleet_clock
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    (SELECT max(arrived_at) FROM newest_lines_stored) AS live_at,
    least(
        greatest(
            (SELECT max(ended_at) FROM stuns_by_time_stored),
            (SELECT max(ended_at) FROM reservation_conflicts_stored),
            (SELECT max(started_at) FROM latency_episodes_stored),
            (SELECT max(started_at) FROM snapshot_operations_stored),
            (SELECT max(opened_at) FROM incidents_stored)
        ),
        now64(6, 'UTC')
    ) AS newest_at
SELECT
    toUnixTimestamp(live_at) > 0 AS is_live,
    multiIf(
        is_live, now64(6, 'UTC'), toUnixTimestamp(newest_at) > 0, newest_at, now64(6, 'UTC')
    ) AS as_of,
    if(is_live, 'now', 'the newest replayed event') AS now_is,
    newest_at AS newest_event_at,
    if(is_live, live_at, NULL) AS heard_live_at,
    if(is_live, dateDiff('second', live_at, now64(6, 'UTC')), NULL) AS lag_s;
