-- Generated from schemas/ by `make generate`.
-- Starts the flow of samples; see records_mv.sql. A message is one sample, or a row of esxtop with the samples of several
-- objects; ARRAY JOIN makes one row for each object. ClickHouse resolves a name again wherever it is used, for every
-- block, so the columns are made in subqueries: one SELECT took 70 ms to analyse, this takes 17.
CREATE MATERIALIZED VIEW IF NOT EXISTS samples_mv TO samples
DEFINER = transform SQL SECURITY DEFINER AS
SELECT
    * EXCEPT (rejected_raw),
    rejected_raw AS raw
FROM
(
    SELECT
        toLowCardinality(tupleElement(record, 'event_time')) AS event_time,
        toLowCardinality(tupleElement(record, 'received_at')) AS received_at,
        toLowCardinality(tupleElement(record, 'kind')) AS kind,
        toLowCardinality(tupleElement(record, 'source')) AS source,
        toLowCardinality(tupleElement(record, 'origin')) AS origin,
        toLowCardinality(tupleElement(record, 'host')) AS host,
        toLowCardinality(tupleElement(record, 'file')) AS file,
        toLowCardinality(tupleElement(record, 'generation')) AS generation,
        tupleElement(record, 'offset') AS offset,
        tupleElement(record, 'line_bytes') AS line_bytes,
        toLowCardinality(tupleElement(record, 'run_id')) AS run_id,
        toLowCardinality(tupleElement(record, 'time_quality')) AS time_quality,
        toLowCardinality(tupleElement(record, 'object_class')) AS object_class,
        if(is_row, devices, [tupleElement(record, 'device')]) AS device,
        if(is_row, arrayResize(tupleElement(measures, 'davg_ms'), length(devices)), [tupleElement(record, 'davg_ms')]) AS davg_ms,
        if(is_row, arrayResize(tupleElement(measures, 'davg_read_ms'), length(devices)), [tupleElement(record, 'davg_read_ms')]) AS davg_read_ms,
        if(is_row, arrayResize(tupleElement(measures, 'davg_write_ms'), length(devices)), [tupleElement(record, 'davg_write_ms')]) AS davg_write_ms,
        if(is_row, arrayResize(tupleElement(measures, 'kavg_ms'), length(devices)), [tupleElement(record, 'kavg_ms')]) AS kavg_ms,
        if(is_row, arrayResize(tupleElement(measures, 'gavg_ms'), length(devices)), [tupleElement(record, 'gavg_ms')]) AS gavg_ms,
        if(is_row, arrayResize(tupleElement(measures, 'gavg_read_ms'), length(devices)), [tupleElement(record, 'gavg_read_ms')]) AS gavg_read_ms,
        if(is_row, arrayResize(tupleElement(measures, 'gavg_write_ms'), length(devices)), [tupleElement(record, 'gavg_write_ms')]) AS gavg_write_ms,
        if(is_row, arrayResize(tupleElement(measures, 'qavg_ms'), length(devices)), [tupleElement(record, 'qavg_ms')]) AS qavg_ms,
        if(is_row, arrayResize(tupleElement(measures, 'commands_per_second'), length(devices)), [tupleElement(record, 'commands_per_second')]) AS commands_per_second,
        if(is_row, arrayResize(tupleElement(measures, 'reads_per_second'), length(devices)), [tupleElement(record, 'reads_per_second')]) AS reads_per_second,
        if(is_row, arrayResize(tupleElement(measures, 'writes_per_second'), length(devices)), [tupleElement(record, 'writes_per_second')]) AS writes_per_second,
        if(is_row, arrayResize(tupleElement(measures, 'megabytes_read_per_second'), length(devices)), [tupleElement(record, 'megabytes_read_per_second')]) AS megabytes_read_per_second,
        if(is_row, arrayResize(tupleElement(measures, 'megabytes_written_per_second'), length(devices)), [tupleElement(record, 'megabytes_written_per_second')]) AS megabytes_written_per_second,
        if(is_row, arrayResize(tupleElement(measures, 'active_commands'), length(devices)), [tupleElement(record, 'active_commands')]) AS active_commands,
        if(is_row, arrayResize(tupleElement(measures, 'queued_commands'), length(devices)), [tupleElement(record, 'queued_commands')]) AS queued_commands,
        if(is_row, arrayResize(tupleElement(measures, 'failed_reserves_per_second'), length(devices)), [tupleElement(record, 'failed_reserves_per_second')]) AS failed_reserves_per_second,
        if(is_row, arrayResize(tupleElement(measures, 'aborts_per_second'), length(devices)), [tupleElement(record, 'aborts_per_second')]) AS aborts_per_second,
        if(is_row, arrayResize(tupleElement(measures, 'resets_per_second'), length(devices)), [tupleElement(record, 'resets_per_second')]) AS resets_per_second,
        event_at,
        received,
        toLowCardinality(reason) AS fault,
        if(reason = '', '', raw) AS rejected_raw,
        topic,
        topic_partition,
        topic_offset,
        topic_time
    FROM
    (
        SELECT
            *,
            reason = '' AND has_devices AS is_row
        FROM
        (
            WITH
                '^(19|2[0-2])[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)([.][0-9]{1,9})?Z$' AS utc_time,
                '(?:host|device|file|generation|run_id|origin)"\\s*:\\s*(?:""|[^"\\s])|(?:offset|line_bytes)"\\s*:\\s*(?:[^0-9\\s]|[0-9]+[^0-9,}\\s])' AS wrong,
                '(?:[a-z_]+_ms|[a-z_]+_per_second|(?:active|queued)_commands)"\\s*:\\s*' AS measure,
                concat('"(?:', wrong, '|', measure, '[^-0-9\\s]|(?:devices|measures)"\\s*:)') AS wrong_in_sample,
                concat(
                    '"(?:', wrong, '|', measure, '(?:[^[\\s]|\\[[^]]*[^]0-9.eE+,nul\\s-])',
                    '|devices"\\s*:\\s*(?:[^[\\s]|\\[(?:\\s*"(?:[^"\\\\]|\\\\.)*"\\s*,)*\\s*[^"\\s])|measures"\\s*:\\s*[^{\\s])'
                ) AS wrong_in_row,
                -- As in records_mv.sql.
                parseDateTime64BestEffortOrNull(tupleElement(record, 'received_at'), 6, 'UTC') AS read_at
            SELECT
                raw,
                record,
                devices,
                measures,
                has_devices,
                parseDateTime64BestEffortOrNull(tupleElement(record, 'event_time'), 6, 'UTC') AS event_at,
                if(
                    read_at < topic_time - INTERVAL 40 DAY OR read_at > topic_time + INTERVAL 1 DAY,
                    CAST(topic_time, 'Nullable(DateTime64(6, \'UTC\'))'),
                    read_at
                ) AS received,
                multiIf(
                    -- As in records_mv.sql.
                    NOT startsWith(raw, '{') OR (tupleElement(record, 'event_time') = '' AND NOT isValidJSON(raw)),
                    'not a JSON object',
                    NOT match(tupleElement(record, 'event_time'), utc_time) OR isNull(event_at),
                    'event_time is not a UTC time',
                    NOT match(tupleElement(record, 'received_at'), utc_time) OR isNull(received),
                    'received_at is not a UTC time',
                    tupleElement(record, 'kind') NOT IN ('line', 'progress'), 'kind is neither line nor progress',
                    tupleElement(record, 'source') != 'esxtop', 'source is not esxtop',
                    tupleElement(record, 'origin') NOT IN ('', 'esxtop', 'vcenter'),
                    'origin is neither esxtop nor vcenter',
                    tupleElement(record, 'kind') = 'line' AND (
                        tupleElement(record, 'object_class') = ''
                        OR if(has_devices, has(devices, ''), tupleElement(record, 'device') = '')
                    ),
                    'object_class or device is missing',
                    has_devices AND tupleElement(record, 'device') != '', 'both device and devices',
                    length(devices) > 1000, 'more than 1000 devices',
                    has_devices AND arrayExists(
                        count -> count NOT IN (0, length(devices)),
                        [
                            length(tupleElement(measures, 'davg_ms')),
                            length(tupleElement(measures, 'davg_read_ms')),
                            length(tupleElement(measures, 'davg_write_ms')),
                            length(tupleElement(measures, 'kavg_ms')),
                            length(tupleElement(measures, 'gavg_ms')),
                            length(tupleElement(measures, 'gavg_read_ms')),
                            length(tupleElement(measures, 'gavg_write_ms')),
                            length(tupleElement(measures, 'qavg_ms')),
                            length(tupleElement(measures, 'commands_per_second')),
                            length(tupleElement(measures, 'reads_per_second')),
                            length(tupleElement(measures, 'writes_per_second')),
                            length(tupleElement(measures, 'megabytes_read_per_second')),
                            length(tupleElement(measures, 'megabytes_written_per_second')),
                            length(tupleElement(measures, 'active_commands')),
                            length(tupleElement(measures, 'queued_commands')),
                            length(tupleElement(measures, 'failed_reserves_per_second')),
                            length(tupleElement(measures, 'aborts_per_second')),
                            length(tupleElement(measures, 'resets_per_second'))
                        ]
                    ),
                    'a measure has not one value for each device',
                    isNull(tupleElement(record, 'offset')) AND JSONHas(raw, 'offset'), 'offset is not an integer',
                    isNull(tupleElement(record, 'line_bytes')) AND JSONHas(raw, 'line_bytes'),
                    'line_bytes is not an integer',
                    NOT has_devices AND match(raw, wrong_in_sample),
                    concat(splitByChar('"', extract(raw, wrong_in_sample))[2], ' has a value of the wrong type'),
                    has_devices AND match(raw, wrong_in_row),
                    concat(splitByChar('"', extract(raw, wrong_in_row))[2], ' has a value of the wrong type'),
                    has_devices AND NOT JSONHas(raw, 'measures'), 'measures is missing',
                    tupleElement(record, 'run_id') = '', 'run_id is missing',
                    tupleElement(record, 'time_quality') NOT IN ('exact', 'year_inferred', 'arrival'),
                    'unknown time_quality',
                    tupleElement(record, 'object_class')
                    NOT IN ('', 'scsi_device', 'adapter', 'path', 'device_world', 'nfs_volume', 'virtual_disk', 'disk'),
                    'unknown object_class',
                    ''
                ) AS reason,
                _topic AS topic,
                _partition AS topic_partition,
                _offset AS topic_offset,
                coalesce(_timestamp_ms, now64(3)) AS topic_time
            FROM
            (
                SELECT
                    raw,
                    _topic,
                    _partition,
                    _offset,
                    _timestamp_ms,
                    JSONExtract(raw, 'Tuple(
                        event_time String,
                        received_at String,
                        kind String,
                        source String,
                        origin String,
                        host String,
                        file String,
                        generation String,
                        offset Nullable(UInt64),
                        line_bytes Nullable(UInt32),
                        run_id String,
                        time_quality String,
                        object_class String,
                        device String,
                        davg_ms Nullable(Float64),
                        davg_read_ms Nullable(Float64),
                        davg_write_ms Nullable(Float64),
                        kavg_ms Nullable(Float64),
                        gavg_ms Nullable(Float64),
                        gavg_read_ms Nullable(Float64),
                        gavg_write_ms Nullable(Float64),
                        qavg_ms Nullable(Float64),
                        commands_per_second Nullable(Float64),
                        reads_per_second Nullable(Float64),
                        writes_per_second Nullable(Float64),
                        megabytes_read_per_second Nullable(Float64),
                        megabytes_written_per_second Nullable(Float64),
                        active_commands Nullable(Float64),
                        queued_commands Nullable(Float64),
                        failed_reserves_per_second Nullable(Float64),
                        aborts_per_second Nullable(Float64),
                        resets_per_second Nullable(Float64),
                        devices Array(String),
                        measures Tuple(
                            davg_ms Array(Nullable(Float64)),
                            davg_read_ms Array(Nullable(Float64)),
                            davg_write_ms Array(Nullable(Float64)),
                            kavg_ms Array(Nullable(Float64)),
                            gavg_ms Array(Nullable(Float64)),
                            gavg_read_ms Array(Nullable(Float64)),
                            gavg_write_ms Array(Nullable(Float64)),
                            qavg_ms Array(Nullable(Float64)),
                            commands_per_second Array(Nullable(Float64)),
                            reads_per_second Array(Nullable(Float64)),
                            writes_per_second Array(Nullable(Float64)),
                            megabytes_read_per_second Array(Nullable(Float64)),
                            megabytes_written_per_second Array(Nullable(Float64)),
                            active_commands Array(Nullable(Float64)),
                            queued_commands Array(Nullable(Float64)),
                            failed_reserves_per_second Array(Nullable(Float64)),
                            aborts_per_second Array(Nullable(Float64)),
                            resets_per_second Array(Nullable(Float64))
                        )
                    )') AS record,
                    tupleElement(record, 'devices') AS devices,
                    tupleElement(record, 'measures') AS measures,
                    notEmpty(devices) AS has_devices
                FROM samples_queue
            )
        )
    )
)
ARRAY JOIN
    device,
    davg_ms,
    davg_read_ms,
    davg_write_ms,
    kavg_ms,
    gavg_ms,
    gavg_read_ms,
    gavg_write_ms,
    qavg_ms,
    commands_per_second,
    reads_per_second,
    writes_per_second,
    megabytes_read_per_second,
    megabytes_written_per_second,
    active_commands,
    queued_commands,
    failed_reserves_per_second,
    aborts_per_second,
    resets_per_second;
