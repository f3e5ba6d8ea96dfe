"""The SQL of dataset columns that turn names and texts from logs into links or escaped text.

Superset draws a cell that contains a tag as HTML. So a table with links shows only such columns,
numbers, times, and words of the project.
"""

from __future__ import annotations

MARGIN_S = 60
"""A link from an event shows this many seconds before and after it."""


def text(column: str) -> str:
    """Return SQL for a column's text that is never HTML, even if it contains tags."""
    escaped = f"concat('<span>', encodeXMLComponent({column}), '</span>')"
    return f"if(position({column}, '<') = 0, {column}, {escaped})"


def link(kind: str, *others: str, start: str = "", end: str = "", shown: str = "") -> str:
    """Return SQL for the name in the column `kind`, as a link to its tab of `entities`.

    Args:
        kind: `vm`, `datastore`, `device` or `host`; the dataset needs a column of this name.
        others: columns of the same row that the link also filters by.
        start: SQL of the event's start; without it the link shows all times.
        end: SQL of the event's end; default: the start.
        shown: text of the link instead of the name.
    """
    parts = [f"'<a href=\"/entity/{kind}?{kind}='", f"encodeURLComponent({kind})"]
    for each in others:
        parts += [f"'&amp;{each}='", f"encodeURLComponent({each})"]
    if start:
        parts += ["'&amp;from='", f"toString(toUnixTimestamp({start}) - {MARGIN_S})"]
        parts += ["'&amp;to='", f"toString(toUnixTimestamp({end or start}) + {MARGIN_S})"]
    parts += [f"'\">{shown}</a>'"] if shown else ["'\">'", f"encodeXMLComponent({kind})", "'</a>'"]
    return f"if({kind} = '', '', concat({', '.join(parts)}))"


INCIDENT = (
    "if(toString(incident_id) = '', '', concat('<a href=\"/incident/', toString(incident_id),"
    " '\">', substring(toString(incident_id), 1, 8), '</a>'))"
)
"""SQL for the first characters of an incident's id, as a link to its report."""
