-- One row is the site: the time zone of its hours of the day and its weekdays, an IANA name. It is the setting
-- STUNWATCH_SITE_TIMEZONE. Times in all views are UTC.
CREATE OR REPLACE VIEW site
DEFINER = transform SQL SECURITY DEFINER AS
SELECT '{site_timezone}' AS timezone;
