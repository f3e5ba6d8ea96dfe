"""Reservation conflicts as the device tells them, and reservations that were held too long."""
