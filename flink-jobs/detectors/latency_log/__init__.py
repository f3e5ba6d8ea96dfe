"""Episodes of slow devices that the host itself logs."""
