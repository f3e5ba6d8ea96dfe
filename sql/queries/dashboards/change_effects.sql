-- One row is one measure before and after one of the twelve newest changes, 90 days on each side, as in
-- `stunwatch sql before_and_after_change`; see change_effects_of. measure_name is the measure's name there.
CREATE OR REPLACE VIEW change_effects
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    toUUID(effects.change_id) AS change_id,
    changed_at,
    title,
    kind,
    host,
    device,
    datastore,
    multiIf(host != '', host, device != '', device, datastore != '', datastore, 'everything') AS scope,
    transform(
        effects.measure,
        [
            'stuns_per_day', 'stun_duration_p50_s', 'stun_duration_p99_s', 'conflict_episodes_per_day',
            'davg_p50_ms', 'davg_p99_ms'
        ],
        [
            'stuns per day', 'stun duration, median, s', 'stun duration, p99, s', 'conflicts per day',
            'DAVG, median, ms', 'DAVG, p99, ms'
        ],
        effects.measure
    ) AS measure,
    effects.measure AS measure_name,
    samples_before AS days_before,
    samples_after AS days_after,
    value_before,
    value_after,
    change_percent,
    p_value,
    p_holm,
    smallest_p,
    verdict AS outcome,
    looked_at,
    events_before,
    events_after
FROM change_effects_of(
    change = '', at = '', most = 12, days = 90, settle_minutes = 10, vm = '', vm_luns = '', host = '', datastore = '',
    device = '', least_samples = 5, significance = 0.05, least_change_percent = 10
) AS effects;
