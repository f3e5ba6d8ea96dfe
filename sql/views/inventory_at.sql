-- One row is one datastore on one LUN as one host saw it at a moment, or a LUN without one:
--   SELECT * FROM inventory_at(at = '2012-05-01 06:00:00')
-- is_assumed: it was said later for the first time.
CREATE OR REPLACE VIEW inventory_at AS
WITH parseDateTime64BestEffort({at:String}, 6, 'UTC') AS moment
SELECT
    *,
    moment < observed_at AS is_assumed
FROM inventory
WHERE valid_from <= moment AND (isNull(valid_until) OR moment < valid_until);
