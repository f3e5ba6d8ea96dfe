-- How many open incidents of replays does `watch` hide without --history?
SELECT count() AS hidden
FROM incidents
WHERE state = 'open' AND run_id != 'live';
