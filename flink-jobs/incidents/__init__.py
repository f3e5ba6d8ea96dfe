"""Incidents: events that belong together, the scope of the fault, and next steps."""
