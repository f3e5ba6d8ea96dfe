-- One row is one annotation of an incident: acknowledged (ack), or its verdict was right or wrong. It contains the
-- verdict at that time, because an incident's scope can widen later.
-- The sort key serves "which annotations does this incident have?"; there are few rows. Only `stunwatch incident`
-- writes here.
CREATE TABLE IF NOT EXISTS incident_marks_stored
(
    incident_id UUID,
    kind LowCardinality(String),
    marked_by LowCardinality(String),
    note String,
    scope LowCardinality(String),
    confidence LowCardinality(String),
    verdict String,
    marked_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = MergeTree
ORDER BY (incident_id, marked_at);
