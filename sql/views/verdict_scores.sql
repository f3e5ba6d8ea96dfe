-- One row is how often people found the verdicts of one scope and confidence right: of each incident
-- the last judgement counts, for the scope and confidence that the verdict had when it was judged.
CREATE OR REPLACE VIEW verdict_scores AS
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
