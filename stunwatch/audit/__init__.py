"""Checks whether all lines and events are stored, using only ClickHouse and the files."""
