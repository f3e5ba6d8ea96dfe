"""Tools for developers, not part of the wheel: `make bench`, `make score`, `make generate`."""
