-- The Java functions of flink-jobs/prefilter/, by their names in SQL. Read by jobs/detect.py first.

-- Whether a line holds any of the detectors' literals.
CREATE TEMPORARY SYSTEM FUNCTION contains_any AS 'io.github.stunwatch.ContainsAny';

-- Whether this is the first line of a host within ten minutes.
CREATE TEMPORARY SYSTEM FUNCTION is_first_heard AS 'io.github.stunwatch.IsFirstHeard';
