-- Generated from schemas/ by `make generate`.
-- Lines, samples and rejected lines have the day of their arrival: whole parts expire a day after the last row in them.
ALTER TABLE latency_samples_stored MODIFY TTL received_on + INTERVAL 90 DAY + INTERVAL 1 DAY;
ALTER TABLE incidents_stored MODIFY TTL toDateTime(written_at) + INTERVAL 5 YEAR;
ALTER TABLE inventory_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE latency_episodes_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE latency_windows_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 1 YEAR;
ALTER TABLE log_lines_stored MODIFY TTL received_on + INTERVAL 30 DAY + INTERVAL 1 DAY;
ALTER TABLE nfs_servers_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE path_events_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE quality_events_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE rejected_lines_stored MODIFY TTL received_on + INTERVAL 30 DAY + INTERVAL 1 DAY;
ALTER TABLE reservation_conflicts_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE scsi_errors_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE snapshot_operations_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE stuns_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE tasks_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
ALTER TABLE unmap_runs_stored MODIFY TTL toDateTime(detected_at) + INTERVAL 5 YEAR;
