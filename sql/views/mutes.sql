-- One row is one mute: which host, device or datastore (those that are not empty, each for itself)
-- alarms nobody, until when and why. is_active: it has neither expired nor been lifted by now.
CREATE OR REPLACE VIEW mutes AS
SELECT
    mute_id,
    host,
    device,
    datastore,
    reason,
    muted_by,
    muted_at,
    expires_at,
    lifted_at,
    lifted_by,
    isNull(lifted_at) AND now64(3) < expires_at AS is_active
FROM mutes_stored FINAL;
