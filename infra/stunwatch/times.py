"""Times as a user writes them on the command line."""

from __future__ import annotations

from datetime import UTC, datetime

from stunwatch.errors import UserError


def moment(text: str) -> datetime:
    """`2024-05-06 07:08`, `2024-05-06T07:08:09+02:00` or `2024-05-06`; UTC where it names no zone.

    Raises:
        UserError: it is none of these.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UserError(
            f"{text!r} is no time; 2024-05-06T07:08 is one, UTC unless it names a zone:"
            " 2024-05-06T07:08+02:00."
        ) from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
