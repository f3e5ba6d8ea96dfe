"""The local pipeline: fetched, started, watched over and stopped."""
