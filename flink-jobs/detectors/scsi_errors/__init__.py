"""Commands to storage that failed, counted by device, path and status."""
