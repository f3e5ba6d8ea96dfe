"""`stunwatch logs`."""


def logs() -> None:
    """Not there yet."""
