-- One row is five minutes in which a host sent live lines of one source.
CREATE OR REPLACE VIEW sources_by_time
DEFINER = transform SQL SECURITY DEFINER AS
SELECT bucket, host, source
FROM source_activity_stored;
