-- One row is one change that somebody made and noted; empty host, device, datastore: it concerned all.
CREATE OR REPLACE VIEW changes AS
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
