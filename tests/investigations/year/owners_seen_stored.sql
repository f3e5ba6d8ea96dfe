-- 21 000 hosts and VMs; 1 in 500 sent no lines for days.
INSERT INTO owners_seen_stored (host, datastore, vm, peer, seen_at)
WITH
    number >= 1000 AS is_vm,
    if(is_vm, number - 1000, number) AS v
SELECT
    concat('esx', leftPad(toString(v % 1000), 4, '0'), '.lab.example'),
    if(is_vm, concat('san-', leftPad(toString(intDiv(v % 1000, 20)), 2, '0'), '-', toString(intDiv(v, 1000) % 10)), ''),
    if(is_vm, concat('vm', leftPad(toString(v), 5, '0')), ''),
    '',
    {now:DateTime64(3, 'UTC')} - if(v % 500 = 7, toIntervalDay(3), toIntervalDay(0)) - toIntervalSecond(v % 600)
FROM numbers(21000);
