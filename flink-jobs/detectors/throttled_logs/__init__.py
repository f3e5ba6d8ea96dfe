"""Lines that a virtual machine's own log left out."""
