"""One module per command of `stunwatch`, each with a function of its own name."""
