"""Lines that a host could not send to its syslog server."""
