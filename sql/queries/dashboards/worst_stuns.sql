-- One row is one stun with its story: the evidence in words, and the incident that it belongs to. The words
-- are made from the kinds of the lines of evidence. They are computed only for the rows that ORDER BY … LIMIT leaves.
CREATE OR REPLACE VIEW worst_stuns
DEFINER = transform SQL SECURITY DEFINER AS
WITH
    (
        SELECT (groupArray(told.1), groupArray(told.2), groupArray(told.3))
        FROM
        (
            SELECT arrayJoin(arrayMap(
                each -> (toString(each), toString(incident_id), verdict), evidence_ids
            )) AS told
            FROM incidents
            WHERE stun_count > 0
        ) AS of_incidents
    ) AS known
SELECT
    event_id,
    ended_at,
    vm,
    datastore,
    host,
    duration_us,
    duration_s,
    cause,
    severity,
    splitByChar('\n', evidence_lines) AS lines,
    arrayStringConcat(
        arrayDistinct(arrayFilter(words -> words != '', arrayMap(
            -- Names given by users, such as those of snapshots, are in quotation marks. They must not select words.
            (line, said) -> multiIf(
                position(said, 'Task Created') > 0, concat('task of hostd: ', extract(line, 'vim\\.([\\w.]{1,80})')),
                position(said, 'Checkpoint_Unstun: vm stopped') > 0,
                concat('vmware.log: stopped for ', extract(said, 'stopped for (\\d{1,19}) us'), ' µs'),
                position(said, 'CPT: vm was stunned') > 0,
                concat('ESXi 8: stunned for ', extract(said, 'stunned for (\\d{1,19}) us'), ' µs'),
                match(said, 'CPT current =|monitor ACKing mode|Sync monModules'), 'the VM changed to a stopped mode',
                position(said, 'SnapshotVMX_TakeSnapshot start: ') > 0,
                concat(
                    if(match(line, 'quiesced=1[^'']*$'), 'quiesced ', ''),
                    'snapshot ',
                    extract(line, 'start: (''.*''), '),
                    if(match(line, 'deviceState=1[^'']*$'), ' with memory', '')
                ),
                match(said, 'SnapshotVMX.{0,22}[Dd]one with snapshot'), 'snapshot completed',
                match(said, 'SnapshotVMXTakeSnapshotComplete: .{0,40}failed'), 'snapshot failed',
                position(said, 'Transition to mode') > 0, 'snapshot in progress',
                match(said, 'lazy snapshot|MainMem|saveStatusWithName'), 'memory was being saved',
                position(said, 'Another iteration is needed') > 0, 'consolidation needed another pass',
                position(said, 'ConsolidateEnd') > 0, 'consolidation completed',
                position(said, 'onsolidat') > 0, 'consolidation in progress',
                match(said, 'DISKLIB-CBT|Resuming change tracking'), 'changed block tracking stopped or resumed',
                position(said, 'DISKLIB') > 0, 'disks of the snapshot opened or closed',
                position(said, 'SVMotion') > 0, 'Storage vMotion in progress',
                match(said, 'HotAdd|[Hh]otplug|Requesting hot-'), 'hardware was added or removed',
                match(said, '[Mm]igrat'), 'migration in progress',
                position(said, 'heckpoint') > 0, 'suspend or resume in progress',
                ''
            ),
            lines,
            arrayMap(line -> splitByChar('''', line)[1], lines)
        ))),
        '; '
    ) AS evidence_in_words,
    indexOf(known.1, toString(event_id)) AS place,
    if(place = 0, '', known.2[place]) AS incident_id,
    substring(incident_id, 1, 8) AS incident,
    if(place = 0, '', known.3[place]) AS verdict,
    evidence_lines
FROM stuns_by_time;
