"""The alert service: reads `events.incident` and notifies receivers once per change of state."""
