-- Only lines with a complete time, including the year, show the clock of their host.
CREATE MATERIALIZED VIEW IF NOT EXISTS source_clocks_mv TO source_clocks_stored
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    source,
    host,
    toStartOfHour(assumeNotNull(received)) AS hour,
    min(assumeNotNull(received)) AS first_received_at,
    max(assumeNotNull(received)) AS last_received_at,
    quantilesBFloat16State(0.1, 0.5, 0.9)(
        dateDiff('microsecond', assumeNotNull(event_at), assumeNotNull(received)) / 1e6
    ) AS delays_s
FROM records
WHERE fault = '' AND kind = 'line' AND run_id = 'live' AND time_quality = 'exact'
GROUP BY source, host, hour;

-- Lines whose time is far from their arrival: more than 5 s ahead, a minute behind, or ten minutes late.
CREATE MATERIALIZED VIEW IF NOT EXISTS odd_clocks_mv TO source_clocks_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    assumeNotNull(event_at) AS at,
    assumeNotNull(received) AS arrived_at,
    dateDiff('microsecond', at, arrived_at) / 1e6 AS delay_s,
    delay_s < -5 AS is_ahead,
    delay_s > 600 AS is_late,
    cityHash64(concat(head, message), at) AS line_hash,
    substring(concat(head, message), 1, 1000) AS line
SELECT
    source,
    host,
    toStartOfHour(arrived_at) AS hour,
    min(arrived_at) AS first_received_at,
    max(arrived_at) AS last_received_at,
    uniqCombined64IfState(line_hash, is_ahead) AS ahead_lines,
    min(if(is_ahead, arrived_at, NULL)) AS ahead_first_at,
    max(if(is_ahead, arrived_at, NULL)) AS ahead_last_at,
    groupUniqArrayIfState(3)(line, is_ahead) AS ahead_evidence,
    uniqCombined64IfState(line_hash, is_late) AS late_lines,
    min(if(is_late, at, NULL)) AS late_first_at,
    max(if(is_late, at, NULL)) AS late_last_at,
    groupUniqArrayIfState(3)(line, is_late) AS late_evidence,
    uniqCombined64IfState(line_hash, NOT is_ahead) AS behind_lines,
    groupUniqArrayIfState(3)(line, NOT is_ahead) AS behind_evidence
FROM records
WHERE
    fault = '' AND kind = 'line' AND run_id = 'live' AND time_quality = 'exact'
    AND (delay_s < -5 OR delay_s > 60)
GROUP BY source, host, hour;

-- Lines from the network that are stored with their arrival as time, because their timestamp is too far from it.
CREATE MATERIALIZED VIEW IF NOT EXISTS doubted_clocks_mv TO source_clocks_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    assumeNotNull(received) AS arrived_at
SELECT
    source,
    host,
    toStartOfHour(arrived_at) AS hour,
    min(arrived_at) AS first_received_at,
    max(arrived_at) AS last_received_at,
    uniqCombined64State(cityHash64(concat(head, message))) AS doubted_lines,
    groupUniqArrayState(3)(substring(concat(head, message), 1, 1000)) AS doubted_evidence
FROM records
WHERE fault = '' AND kind = 'line' AND run_id = 'live' AND isNotNull(stamped_at)
GROUP BY source, host, hour;
