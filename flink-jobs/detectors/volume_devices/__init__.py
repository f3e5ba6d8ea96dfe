"""The LUN of a datastore, from lines that name both."""
