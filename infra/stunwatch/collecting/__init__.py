"""What `stunwatch collect` does over and over: ask a vCenter, ship what it says."""
