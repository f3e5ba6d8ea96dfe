-- One row is all limits that other views need; there is always one.
-- Internal: users set them in their settings.
CREATE OR REPLACE VIEW limits
DEFINER = transform SQL SECURITY DEFINER AS
WITH argMax(limits_stored.value, set_at) AS newest_line_set
SELECT
    -- The default of the setting STUNWATCH_NEWEST_LINE_LIMIT_S.
    if(newest_line_set > 0, newest_line_set, 600) AS newest_line_s
FROM limits_stored
WHERE limits_stored.name = 'newest_line_s';
