-- Which UNMAP runs were slow, and which fell back to 200 blocks per step?
-- param volume = : part of the volume's UUID
-- param most = 20 : number of rows
SELECT
    volume,
    host,
    started_at,
    outcome,
    block_count,
    fell_back,
    iterations,
    blocks_total,
    round(duration_ms / 1000, 1) AS duration_s,
    blocks_per_second
FROM unmap_runs
WHERE positionCaseInsensitive(volume, {volume:String}) > 0
ORDER BY coalesce(fell_back, false) DESC, duration_ms DESC, started_at ASC
LIMIT {most:UInt32};
