"""`stunwatch status`."""


def status() -> None:
    """Not there yet."""
