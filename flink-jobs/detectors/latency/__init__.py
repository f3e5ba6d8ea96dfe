"""Sustained latency: measurements of esxtop and Storage I/O Control above a threshold."""
