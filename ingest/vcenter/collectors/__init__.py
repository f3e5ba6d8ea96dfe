"""The collectors that `stunwatch collect` runs: they query a vCenter and ship the results."""
