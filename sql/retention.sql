-- The retention of tables without a definition in schemas/; generated/retention.sql has the others.
ALTER TABLE latency_windows_late MODIFY TTL toDateTime(window_start) + INTERVAL 1 YEAR;
ALTER TABLE incident_marks_stored MODIFY TTL toDateTime(marked_at) + INTERVAL 5 YEAR;
ALTER TABLE mutes_stored MODIFY TTL toDateTime(expires_at) + INTERVAL 5 YEAR;
ALTER TABLE owners_seen_stored MODIFY TTL toDateTime(seen_at) + INTERVAL 1 YEAR;
ALTER TABLE file_arrivals_stored MODIFY TTL arrived_on + INTERVAL 5 YEAR;
