"""A seeded fleet that writes the logs of every era, and the truth beside them.

Written from what ESX and ESXi print, never from what the detectors look for: `fleet` says what
there is, `virtual_machines` and `hosts` what happens to it, `noise` what is logged meanwhile,
`journals` how each era spells a line, `esxtop` what is sampled, `writing` how files are rotated and
packed, `truth` what a detector should have found; `run` does it all, `live` feeds it to a pipeline.
"""
