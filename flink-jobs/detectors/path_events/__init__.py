"""Losses and recoveries of a host's access to storage."""
