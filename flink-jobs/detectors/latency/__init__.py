"""Latency that lasts: what esxtop and Storage I/O Control measure, against a threshold."""
