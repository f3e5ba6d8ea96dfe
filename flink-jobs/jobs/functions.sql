-- The Java functions of flink-jobs/functions/ and their SQL names. Read by jobs/detect.py first.

-- TRUE if a line contains any of the detectors' literals and is not too long.
CREATE TEMPORARY SYSTEM FUNCTION contains_any AS 'io.github.stunwatch.ContainsAny';

-- TRUE for the first line of a host within ten minutes.
CREATE TEMPORARY SYSTEM FUNCTION is_first_seen AS 'io.github.stunwatch.IsFirstSeen';
