"""Reads VM logs, counters and inventory from a vCenter and converts them to records. Never writes.

session.py sends every request to the vCenter. fleet.py tracks hosts, VMs and datastores. pace.py
limits the rate of requests per host and datastore. vmlogs.py, latency.py and inventory.py use them.
"""
