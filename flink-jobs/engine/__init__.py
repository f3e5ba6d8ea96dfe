"""What runs the trackers inside Flink. Thin: the logic is in `detectors/`."""
