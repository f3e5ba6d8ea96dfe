"""Outages of NFS servers as one host sees them."""
