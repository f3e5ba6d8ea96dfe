-- Did a change help: stuns, conflicts and latency before and after it?
-- One row is one measure; change_percent is the size of the effect. The samples are days: the number of
-- stuns or conflicts, the median and longest stun, the median of the hours' slowest minutes (DAVG) and the 99th
-- percentile of their slowest samples. Neighbouring minutes are similar and prove little; days are more
-- independent.
-- p_value: probability of chance (ranks, two-sided; all permutations up to 14 days, above that the normal
-- distribution). p_holm: the same after Holm's correction for all tested measures. smallest_p: the smallest
-- possible p_holm with so few days; with 5 days on each side p_value is at least 2/252.
-- better or worse: p_holm is at most `significance`, and the value changed by `least_change_percent` in the
-- same direction as the days.
-- not tested: a side has fewer than `least_samples` days, or smallest_p is above `significance`.
-- Only watched time counts: on each side from the first to the last line of the VMs' logs (or stun), or of
-- the hosts' vmkernel (or conflict).
-- A change of one host, LUN or datastore is judged by its own data, with the help of the inventory. Without
-- inventory the scope is wider; looked_at shows the scope. The dashboard Changes shows the same figures.
-- param change = : id of the change (`stunwatch change list`); by default the latest one, unless `at` is given
-- param at = : a time instead, UTC, for example 2012-05-01 06:00
-- param days = 90 : days before and after
-- param settle_minutes = 10 : minutes after the change to leave out
-- param vm = : part of the VM's name
-- param host = : one host
-- param datastore = : one datastore, by name or UUID
-- param device = : one LUN
-- param least_samples = 5 : smallest number of days on each side
-- param significance = 0.05 : largest p_holm
-- param least_change_percent = 10 : smallest change, percent
SELECT
    measure,
    samples_before,
    samples_after,
    value_before,
    value_after,
    change_percent,
    p_value,
    p_holm,
    smallest_p,
    verdict,
    looked_at,
    changed_at,
    events_before,
    events_after
FROM change_effects_in(
    scopes = (
        SELECT scopes
        FROM change_scopes_of(
            change = {change:String}, at = {at:String}, most = 1, days = {days:UInt32}, vm = {vm:String}, vm_luns = '',
            host = {host:String}, datastore = {datastore:String}, device = {device:String}
        )
    ),
    days = {days:UInt32}, settle_minutes = {settle_minutes:UInt32}, vm = {vm:String},
    least_samples = {least_samples:UInt32}, significance = {significance:Float64},
    least_change_percent = {least_change_percent:Float64}
)
ORDER BY measure_number ASC;
