-- One row is one recorded change. Empty host, device and datastore: the change concerned everything.
CREATE OR REPLACE VIEW changes
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    change_id,
    changed_at,
    kind,
    title,
    host,
    device,
    datastore,
    noted_at
FROM changes_stored FINAL;
