"""`stunwatch watch` in a terminal: what is asked again and again (`polls`), and how it is shown."""
