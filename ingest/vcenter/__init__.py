"""What a vCenter knows becomes records: the VMs' own logs, counters, inventory. It is only read.

session.py is the one door to the vCenter; fleet.py keeps what there is and where; pace.py says how
often a host and a datastore may be asked. On them stand vmlogs.py, latency.py and inventory.py.
"""
