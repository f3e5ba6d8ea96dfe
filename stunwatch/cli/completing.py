"""Shell completion of arguments, with data from a running pipeline.

It must be fast, because a user waits for it while typing. Without a pipeline it returns nothing.
"""

from __future__ import annotations

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.settings import load_settings
from stunwatch.short_ids import SHORT

_ANSWER_WITHIN_S = 2.0
_MOST = 50


def incident_ids(incomplete: str) -> list[tuple[str, str]]:
    """Return the newest incidents whose id begins with this text, with their verdicts."""
    try:
        rows = as_user(load_settings(), "analyst", timeout_s=_ANSWER_WITHIN_S).rows(
            "SELECT toString(incident_id), verdict FROM incidents"
            " WHERE startsWith(toString(incident_id), {beginning:String})"
            " ORDER BY opened_at DESC LIMIT {most:UInt32}",
            {"beginning": incomplete.lower(), "most": _MOST},
        )
    except (UserError, OSError):
        return []
    size = max(SHORT, len(incomplete))
    return [(incident_id[:size], verdict) for incident_id, verdict in rows]


def logs(incomplete: str) -> list[str]:
    """Return the components that have a log."""
    try:
        folder = load_settings().logs
    except UserError:
        return []
    return sorted(each.stem for each in folder.glob("*.log") if each.stem.startswith(incomplete))
