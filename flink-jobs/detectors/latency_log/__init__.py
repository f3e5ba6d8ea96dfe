"""Episodes of slow devices that the host itself tells in words."""
