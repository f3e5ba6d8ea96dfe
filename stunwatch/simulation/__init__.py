"""Simulates a fleet from a seed: writes logs of every ESX release, and the expected events (truth).

The formats follow what ESX and ESXi print, not what the detectors look for. `fleet` defines hosts,
storage and VMs; `virtual_machines` and `hosts` what happens to them; `noise` unrelated log lines;
`log_writers` the line format of each release; `esxtop` samples; `writing` how files are rotated and
packed; `truth` the events that detectors should find. `run` runs all of it; `live` sends it to a
running pipeline.
"""
