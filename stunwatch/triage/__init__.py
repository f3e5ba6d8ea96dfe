"""Finds stuns, events and incidents in log files in one process, without the pipeline's components.

Parsers, trackers and the correlator are the pipeline's own code. What the pipeline does in SQL or
Java (the prefilter, windows over samples) exists here a second time in Python; tests compare both.
"""
