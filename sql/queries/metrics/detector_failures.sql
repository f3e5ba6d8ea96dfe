-- Which detectors failed in the last hour, on how many of the stored records, and with which errors?
-- flink-jobs/engine/failures.py writes these reasons.
SELECT
    extract(reason, '^detector ([a-z_]{1,60}) failed') AS detector,
    arrayStringConcat(arraySort(groupUniqArray(5)(extract(reason, ': (\\w{1,80})$'))), ', ') AS errors,
    count() AS records
FROM rejected_lines
WHERE startsWith(reason, 'detector ') AND received_at >= now() - INTERVAL 1 HOUR
GROUP BY detector
ORDER BY detector ASC;
