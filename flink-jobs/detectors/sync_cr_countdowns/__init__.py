"""Countdowns of retries against a reservation: the world, the values and the outcome."""
