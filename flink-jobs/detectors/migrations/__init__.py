"""Migrations: the length of a vMotion's stun, if only the host's log contains it."""
