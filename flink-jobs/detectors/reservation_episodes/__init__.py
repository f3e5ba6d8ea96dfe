"""Reservation conflicts as the device reports them, and reservations held for too long."""
