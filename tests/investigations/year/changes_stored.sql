-- 300 changes; the last one a week ago.
INSERT INTO changes_stored (change_id, changed_at, kind, title, host, device, datastore, is_deleted)
SELECT
    generateUUIDv4(), {now:DateTime64(3, 'UTC')} - toIntervalHour(168 + number * 28),
    ['firmware', 'path_policy', 'other'][number % 3 + 1], 'a change',
    if(number % 3 = 1, concat('esx', leftPad(toString(number), 4, '0'), '.lab.example'), ''), '', '', 0
FROM numbers(300);
