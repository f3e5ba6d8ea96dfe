"""What a user can put right."""

from __future__ import annotations


class UserError(Exception):
    """A failure that one sentence explains; the command prints it and exits with 2.

    The text is that sentence: what is wrong, and what to do about it.
    """
