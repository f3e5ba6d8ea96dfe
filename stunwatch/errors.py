"""Errors that a user can fix."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A failure that the user can fix. The command prints the text and exits with 2.

    The text states what happened, the value and the remedy.
    """


def did_you_mean(typed: str, known: Iterable[str]) -> str:
    """Return ` Did you mean this?`, to append to an error; empty if no known name is similar."""
    by_lower = {each.lower(): each for each in known}
    nearest = [by_lower[each] for each in get_close_matches(typed.lower(), by_lower, n=2)]
    return f" Did you mean {' or '.join(nearest)}?" if nearest else ""
