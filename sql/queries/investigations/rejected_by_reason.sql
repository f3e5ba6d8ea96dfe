-- Which lines were rejected, and why?
SELECT
    reason,
    source,
    count() AS lines,
    min(received_at) AS first_received_at,
    max(received_at) AS last_received_at,
    substring(any(line), 1, 120) AS example
FROM rejected_lines
GROUP BY reason, source
ORDER BY lines DESC, reason ASC;
