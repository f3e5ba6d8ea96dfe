"""The detectors: one folder each, plain Python, no Flink, no Kafka and no clock inside.

A folder holds `detector.yaml` (what it looks for, literals, patterns, thresholds), `tracker.py`
(the state machine), `README.md` and `cases/`. `detectors.catalogue` finds the folders; adding one
edits no other file.
"""
