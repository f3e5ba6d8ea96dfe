"""Runs of space reclamation: how many blocks a step, how fast, and whether the step shrank."""
