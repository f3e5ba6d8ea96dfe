"""Events become incidents: what belongs together, where the fault lies, what to do next."""
