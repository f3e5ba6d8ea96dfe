-- One row is one snapshot that was created and, as far as the logs show, never removed; its age is relative
-- to fleet_clock. See open_snapshots_at.
CREATE OR REPLACE VIEW open_snapshots
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    host,
    vm,
    datastore,
    name,
    kind,
    created_at,
    age_days,
    open_at_least,
    failed_removals,
    unclear_removals
FROM open_snapshots_at(until = '2100-01-01', vm = '', datastore = '');
