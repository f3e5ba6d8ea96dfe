-- One row is the share of right verdicts for one scope and confidence. The newest judgement of each
-- incident counts, with the scope and confidence that the verdict had at that time.
CREATE OR REPLACE VIEW verdict_scores
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    scope,
    confidence,
    count() AS judged_count,
    countIf(kind = 'right') AS right_count,
    countIf(kind = 'wrong') AS wrong_count,
    right_count / judged_count AS share_right
FROM incident_marks
WHERE is_last AND kind IN ('right', 'wrong')
GROUP BY scope, confidence;
