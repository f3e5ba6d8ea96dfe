"""Resolves ids that a user types: a whole id, or its first characters if they are unique."""

from __future__ import annotations

import re
from typing import Any

from stunwatch.clickhouse import ClickHouse
from stunwatch.errors import UserError

SHORT = 8
"""Lists show this many characters of an id."""

_MOST_SHOWN = 5

INCIDENT_IDS = "SELECT toString(incident_id) AS id FROM incidents"
CHANGE_IDS = "SELECT toString(change_id) AS id FROM changes"


def the_one(
    reader: ClickHouse, query: str, typed: str, kind: str, listed_by: str
) -> dict[str, Any]:
    """Return the only row of `query` whose column `id` begins with the text that the user typed.

    Args:
        reader: the client that runs the query.
        query: returns one row for each id.
        typed: an id or its beginning, in any case.
        kind: the noun for the error message, such as `incident`.
        listed_by: the command that lists the ids, for the error message.

    Raises:
        UserError: no id begins with the text, or several do.
    """
    beginning = typed.strip().lower()
    if not re.fullmatch(r"[0-9a-f-]{1,36}", beginning):
        raise UserError(
            f"{typed!r} is not an id of {_article(kind)}. `{listed_by}` lists the ids; the first"
            f" {SHORT} characters are enough."
        )
    found = reader.named_rows(
        f"SELECT * FROM ({query}) WHERE startsWith(id, {{beginning:String}}) ORDER BY id",
        {"beginning": beginning},
    )
    if not found:
        raise UserError(f"No {kind} has an id that begins with {beginning}. List: `{listed_by}`.")
    if len(found) > 1:
        raise UserError(
            f"{len(found):,} {kind}s have an id that begins with {beginning}:"
            f" {_distinct([each['id'] for each in found])}. Type more characters."
        )
    return found[0]


def _distinct(ids: list[str]) -> str:
    """Return the first ids, shortened as in lists, or longer if that is not unique."""
    shown = ids[:_MOST_SHOWN]
    size = next(
        size for size in (SHORT, 13, 18, 23, 36) if len({i[:size] for i in ids}) == len(ids)
    )
    more = f" and {len(ids) - len(shown):,} more" if len(ids) > len(shown) else ""
    return f"{', '.join(each[:size] for each in shown)}{more}"


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
