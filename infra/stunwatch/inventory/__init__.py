"""What hosts say of their storage: which LUN a datastore lies on, and what kind of LUN it is.

In the order in which an answer of `esxcli` passes: `files` finds it and whose it is, `outputs`
reads it, `items` makes of it what travels on `events.inventory`.
"""
