"""Flink adapters that run the trackers. The logic is in `detectors/`."""
