"""Compares the detected events of a simulated night with the expected ones: `make score SEED=n`.

`sections` compares view by view, `matching` assigns rows to expected events (truths), `pipeline`
queries the views of a running pipeline, `in_memory` runs the same detectors in one process.
"""
