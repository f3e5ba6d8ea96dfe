"""Tells people of incidents: follows `events.incident` and notifies, once per change of state."""
