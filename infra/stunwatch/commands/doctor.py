"""`stunwatch doctor`."""


def doctor() -> None:
    """Not there yet."""
