"""Speeds of a pipeline of its own: `make bench`."""
