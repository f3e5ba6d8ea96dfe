-- One row is one datastore on one LUN as one host saw it at a time, or a LUN without datastore:
--   SELECT * FROM inventory_at(at = '2012-05-01 06:00:00')
-- is_assumed: first observed later.
CREATE OR REPLACE VIEW inventory_at
DEFINER = transform SQL SECURITY DEFINER AS
WITH parseDateTime64BestEffort({at:String}, 6, 'UTC') AS moment
SELECT
    *,
    moment < observed_at AS is_assumed
FROM inventory
WHERE valid_from <= moment AND (isNull(valid_until) OR moment < valid_until);
