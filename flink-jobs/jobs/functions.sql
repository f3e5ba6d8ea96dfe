-- The Java function of flink-jobs/functions/ and its SQL name. Read by jobs/detect.py first.

-- TRUE if a line contains any of the detectors' literals and is not too long.
CREATE TEMPORARY SYSTEM FUNCTION contains_any AS 'io.github.stunwatch.ContainsAny';
