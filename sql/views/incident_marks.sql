-- One row is one annotation of an incident: ack, right or wrong, with the verdict at that time. is_last:
-- the newest of its kind; the newest judgement counts.
CREATE OR REPLACE VIEW incident_marks
DEFINER = transform SQL SECURITY DEFINER AS
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
