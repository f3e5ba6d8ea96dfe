-- One row is the age of the newest live line; there is always one. `watch`, metrics and dashboards share it.
-- The state `ok`: lines arrive. `few_hosts`: lines arrive, but from less than half of the hosts of the last
-- seven days. `silent`: the newest line is older than the limit. `never`: no live line was ever received.
-- `replayed_only`: none was ever received, but logs were replayed. Live lines may not be expected then.
-- Samples of esxtop and vCenter count only if no line was ever received: they contain no stun.
CREATE OR REPLACE VIEW newest_line
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    ['syslog', 'vmware_log'] AS of_lines,

    (SELECT countIf(source IN of_lines) > 0 FROM newest_lines_stored) AS has_lines,

    (
        SELECT (count(), max(arrived_at), argMax(line_at, arrived_at), argMax(toString(source), arrived_at))
        FROM newest_lines_stored
        WHERE source IN of_lines OR NOT has_lines
    ) AS newest_live,

    (SELECT newest_line_s FROM limits) AS newest_line_s,

    -- A host counts as sending by its newest interval of five minutes.
    (
        SELECT (count(), countIf(bucket_at > now() - toIntervalSecond(greatest(newest_line_s, 600) + 300)))
        FROM
        (
            SELECT host, toStartOfFiveMinutes(max(last_received_at)) AS bucket_at
            FROM source_half_days_stored
            WHERE
                host != '' AND half_day > now() - INTERVAL 8 DAY AND last_received_at > now() - INTERVAL 7 DAY
                AND (source IN of_lines OR NOT has_lines)
            GROUP BY host
        ) AS newest_of_hosts
    ) AS hosts,

    (SELECT count() FROM owners_seen_stored) AS known_names,
    (SELECT countIf(run_id = 'live') FROM rejected_lines_stored) AS rejected_lines

SELECT
    now64(3, 'UTC') AS as_of,
    if(newest_live.1 = 0, NULL, newest_live.2) AS arrived_at,
    if(newest_live.1 = 0, NULL, newest_live.3) AS line_at,
    assumeNotNull(newest_live.4) AS source,
    if(newest_live.1 = 0, NULL, greatest(0, dateDiff('second', newest_live.2, as_of))) AS age_s,
    assumeNotNull(newest_line_s) AS limit_s,
    assumeNotNull(hosts.1) AS known_hosts,
    assumeNotNull(hosts.2) AS sending_hosts,
    multiIf(
        newest_live.1 = 0 AND known_names > 0 AND rejected_lines = 0, 'replayed_only',
        newest_live.1 = 0, 'never',
        age_s > limit_s, 'silent',
        sending_hosts * 2 < known_hosts, 'few_hosts',
        'ok'
    ) AS state,
    state IN ('silent', 'never') AS is_silent,
    multiIf(
        state = 'never', 'No live line was ever received',
        state = 'replayed_only', 'Only replayed logs: no live line was ever received',
        state = 'silent', concat(
            'No live line for ', formatReadableTimeDelta(age_s, 'days', 'minutes'),
            '; the limit is ', formatReadableTimeDelta(limit_s)
        ),
        state = 'few_hosts', concat(
            'Only ', toString(sending_hosts), ' of ', toString(known_hosts), ' hosts send lines'
        ),
        concat('Newest live line ', formatReadableTimeDelta(age_s), ' ago')
    ) AS message;
