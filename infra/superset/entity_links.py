"""Translate links to a VM, datastore, LUN or host into addresses of the dashboard `entities`.

Links are short and the same everywhere: /entity/vm?vm=sql01&datastore=san-1&from=1332123125.
Superset's own address of a filtered dashboard is long, and its format can change with Superset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

TABS = {"vm": "TAB-1", "datastore": "TAB-2", "device": "TAB-3", "host": "TAB-4"}
"""Kind of a link → tab in infra/superset/assets/dashboards/entities.yaml."""

LONGEST_NAME = 255
"""Maximum length of a name in bytes; see "limits of state" in docs/security.md."""

MOST_NAMES = 4
"""Maximum number of names of one entity: a host has a name and aliases."""

LAST_SECOND = 4_102_444_800
"""2100-01-01, in seconds since 1970."""


class BadLinkError(ValueError):
    """The link is invalid; the text names the problem."""


def dashboard_address(kind: str, values: Mapping[str, Sequence[str]]) -> str:
    """Return the path of the dashboard with filters for these names and this time range.

    Args:
        kind: the kind of entity that the link opens, a key of TABS.
        values: names per kind (keys of TABS), and `from` and `to` in seconds since 1970. Without a
            time the dashboard shows all times. Other keys are ignored.

    Raises:
        BadLinkError: an unknown kind, no name of this kind, a name that is too long, or a time that
            is not a number of seconds.
    """
    if kind not in TABS:
        raise BadLinkError(f"unknown kind: one of {', '.join(TABS)}")
    names = {each: [name for name in dict.fromkeys(values.get(each, ())) if name] for each in TABS}
    if not names[kind]:
        raise BadLinkError(f"no name: add ?{kind}=")
    for each, found in names.items():
        if len(found) > MOST_NAMES or any(len(name.encode()) > LONGEST_NAME for name in found):
            raise BadLinkError(f"{each}: a name is too long, or there are more than {MOST_NAMES}")
    filters = [_names(each, found) for each, found in names.items() if found]
    filters.append(_times(values))
    chosen = quote(f"({','.join(filters)})", safe="!(),:")
    return f"/superset/dashboard/entities/?native_filters={chosen}#{TABS[kind]}"


def _names(column: str, names: Sequence[str]) -> str:
    listed = ",".join(_text(each) for each in names)
    chosen = f"extraFormData:(filters:!((col:{column},op:IN,val:!({listed}))))"
    return _filter(column, f"{chosen},filterState:(value:!({listed}))")


def _times(values: Mapping[str, Sequence[str]]) -> str:
    from_at, to_at = (_moment(values.get(each, [""])[0]) for each in ("from", "to"))
    if not (from_at or to_at):
        # An empty filter overrides the default range of the dashboard.
        return _filter("time_range", "extraFormData:(),filterState:()")
    wanted = _text(f"{from_at} : {to_at}")
    return _filter(
        "time_range", f"extraFormData:(time_range:{wanted}),filterState:(value:{wanted})"
    )


def _moment(text: str) -> str:
    if not text:
        return ""
    if not (text.isascii() and text.isdecimal() and int(text[:12]) < LAST_SECOND):
        raise BadLinkError("from, to: seconds since 1970")
    return f"{datetime.fromtimestamp(int(text), UTC):%Y-%m-%dT%H:%M:%S}"


def _filter(name: str, content: str) -> str:
    return f"NATIVE_FILTER-{name}:(id:NATIVE_FILTER-{name},{content})"


def _text(text: str) -> str:
    """Return a string in Rison, the notation of filters in Superset's addresses."""
    return "'" + text.replace("!", "!!").replace("'", "!'") + "'"
