-- Only lines with a complete time, including the year, show the clock of their host. A line is odd if its time is far
-- from its arrival: more than 5 s ahead, a minute behind, or ten minutes late. A line from the network is doubted if it
-- is stored with its arrival as time, because its timestamp is too far from it.
-- One view for all of them: each view costs milliseconds per block. `if` computes the hash and text of odd lines only.
CREATE MATERIALIZED VIEW IF NOT EXISTS source_clocks_mv TO source_clocks_stored
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    assumeNotNull(event_at) AS at,
    assumeNotNull(received) AS arrived_at,
    time_quality = 'exact' AS is_exact,
    isNotNull(stamped_at) AS is_doubted,
    dateDiff('microsecond', at, arrived_at) / 1e6 AS delay_s,
    is_exact AND delay_s < -5 AS is_ahead,
    is_exact AND delay_s > 60 AS is_behind,
    is_exact AND delay_s > 600 AS is_late,
    if(is_ahead OR is_behind, cityHash64(concat(head, message), at), 0) AS odd_hash,
    if(is_doubted, cityHash64(concat(head, message)), 0) AS doubted_hash,
    if(is_ahead OR is_behind OR is_doubted, substring(concat(head, message), 1, 1000), '') AS line
SELECT
    source,
    host,
    toStartOfHour(arrived_at) AS hour,
    min(arrived_at) AS first_received_at,
    max(arrived_at) AS last_received_at,
    quantilesBFloat16IfState(0.1, 0.5, 0.9)(delay_s, is_exact) AS delays_s,
    uniqCombined64IfState(odd_hash, is_ahead) AS ahead_lines,
    min(if(is_ahead, arrived_at, NULL)) AS ahead_first_at,
    max(if(is_ahead, arrived_at, NULL)) AS ahead_last_at,
    groupUniqArrayIfState(3)(line, is_ahead) AS ahead_evidence,
    uniqCombined64IfState(odd_hash, is_late) AS late_lines,
    min(if(is_late, at, NULL)) AS late_first_at,
    max(if(is_late, at, NULL)) AS late_last_at,
    groupUniqArrayIfState(3)(line, is_late) AS late_evidence,
    uniqCombined64IfState(odd_hash, is_behind) AS behind_lines,
    groupUniqArrayIfState(3)(line, is_behind) AS behind_evidence,
    uniqCombined64IfState(doubted_hash, is_doubted) AS doubted_lines,
    groupUniqArrayIfState(3)(line, is_doubted) AS doubted_evidence
FROM records
WHERE fault = '' AND kind = 'line' AND run_id = 'live' AND (is_exact OR is_doubted)
GROUP BY source, host, hour;
