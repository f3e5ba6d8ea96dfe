-- One row is one mark that somebody set on an incident: it is seen to (ack), its verdict was right,
-- or wrong. What the verdict was is kept with it: an incident's scope may widen after it was judged.
-- The sort key serves "what was said of this incident?"; there are few. `stunwatch incident` alone
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
