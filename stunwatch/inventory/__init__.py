"""Reads storage inventory from esxcli outputs: the LUNs of each datastore, and their properties.

An esxcli output passes three steps: `files` finds it and its host, `outputs` parses it, `items`
converts it to messages for `events.inventory`.
"""
