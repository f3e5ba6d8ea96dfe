"""The `stunwatch` command and the local pipeline it runs."""
