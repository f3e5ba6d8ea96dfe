-- One row is one measure before and after one change:
--   SELECT * FROM change_effects_of(
--       change = '', at = '', most = 12, days = 90, settle_minutes = 10, vm = '', vm_luns = '', host = '',
--       datastore = '', device = '', least_samples = 5, significance = 0.05, least_change_percent = 10)
-- The dashboards (change_effects) and `stunwatch sql before_and_after_change` use this definition.
-- `change` is its id. Without it, the newest `most` changes are compared. `at` is a time instead of a change. `vm` is
-- part of a VM's name. `vm_luns`: the LUNs of these VMs, joined by a comma and a space, if they are not those of the
-- inventory.
--
-- The samples are days: the number of stuns or conflicts, the median and longest stun, the median of the hours'
-- slowest minutes (DAVG) and the 99th percentile of their slowest samples. Neighbouring minutes are similar and
-- prove little; days are more independent. In an hour that a side begins or ends in, only its minutes count.
-- Without named LUNs, the slowest LUN of each host counts.
--
-- `p_value`: probability of chance (ranks, two-sided). It uses all permutations up to 14 days, above that the normal
-- distribution. `p_holm`: the same after Holm's correction for all tested measures of the change. `smallest_p`: the
-- smallest possible `p_holm` with so few days.
-- The verdict is better or worse if `p_holm` is at most `significance`, and the value changed by
-- `least_change_percent` in the same direction as the days. It is not tested if a side has fewer than
-- `least_samples` days, or `smallest_p` is above `significance`.
--
-- Only watched time counts: on each side from the first to the last line of the VMs' logs (or stun), or of the
-- hosts' vmkernel (or conflict). `events_before` and `events_after` are the stuns, conflicts or LUN-hours of a side.
-- A change of one host, LUN or datastore is judged by its own data, with the help of the inventory. Without
-- inventory the scope is wider; `looked_at` shows the scope.
CREATE OR REPLACE VIEW change_effects_of
DEFINER = transform SQL SECURITY DEFINER AS
SELECT *
FROM change_effects_in(
    scopes = (
        SELECT scopes
        FROM change_scopes_of(
            change = {change:String}, at = {at:String}, most = {most:UInt32}, days = {days:UInt32}, vm = {vm:String},
            vm_luns = {vm_luns:String}, host = {host:String}, datastore = {datastore:String},
            device = {device:String}
        )
    ),
    days = {days:UInt32}, settle_minutes = {settle_minutes:UInt32}, vm = {vm:String},
    least_samples = {least_samples:UInt32}, significance = {significance:Float64},
    least_change_percent = {least_change_percent:Float64}
);
