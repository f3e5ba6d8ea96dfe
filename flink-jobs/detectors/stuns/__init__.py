"""Stuns: a virtual machine that was stopped by its own host, and for how long."""
