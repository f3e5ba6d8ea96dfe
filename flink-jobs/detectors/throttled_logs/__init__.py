"""Lines that a virtual machine's own log omitted."""
