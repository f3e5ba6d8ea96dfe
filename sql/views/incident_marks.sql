-- One row is one mark that somebody set on an incident: ack, right or wrong, with the verdict as it
-- stood then. is_last: none of its sort came later; the last judgement is the one that counts.
CREATE OR REPLACE VIEW incident_marks AS
SELECT
    incident_id,
    kind,
    marked_by,
    note,
    marked_at,
    scope,
    confidence,
    verdict,
    row_number() OVER (PARTITION BY incident_id, kind = 'ack' ORDER BY marked_at DESC, kind ASC) = 1 AS is_last
FROM incident_marks_stored;
