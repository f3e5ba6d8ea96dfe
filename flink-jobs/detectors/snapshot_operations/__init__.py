"""Snapshot operations: snapshots created and removed, from their first line to their last."""
