"""Stuns: times for which a host stopped a virtual machine, with length and cause."""
