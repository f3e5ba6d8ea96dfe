"""`python -m stunwatch.cli` is `stunwatch`."""

from stunwatch.cli import main

main()
