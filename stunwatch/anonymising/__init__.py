"""Replaces names in logs by pseudonyms, so that the logs can be shared.

Pass 1 (`names`) collects names from known positions in lines. Pass 2 (`masking`) keeps a word only
if it occurs in ESXi's own messages (`vocabulary`); all other words get a pseudonym.
"""
