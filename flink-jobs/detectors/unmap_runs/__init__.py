"""Runs of space reclamation: blocks per step, speed, and whether the step size decreased."""
