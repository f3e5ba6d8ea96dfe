"""Which LUN a datastore lies on, where a line names both."""
