"""`stunwatch watch` in a terminal: its queries (`polls`) and its screen (`screen`)."""
