"""The detectors: one folder each, in plain Python without Flink, Kafka or a clock.

A folder contains `detector.yaml` (literals, patterns, thresholds), `tracker.py` (the state
machine), `README.md` and `cases/`. `detectors.catalogue` finds the folders, so a new detector needs
no change in any other file.
"""
