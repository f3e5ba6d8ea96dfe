"""Renders one frame of the live view from the results of the polls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stunwatch.incidents.wording import counted
from stunwatch.live_view.polls import Answer, Event, Flow, Row
from stunwatch.local.health import Health, LiveLines
from stunwatch.newest_line import live_lines
from stunwatch.output import SEVERITY_STYLES
from stunwatch.printable import printable
from stunwatch.times import in_zone, stored

T = TypeVar("T")

SOURCES = {
    "esxi.syslog": "syslog",
    "esxi.vmware_log": "vmware.log",
    "esxi.esxtop": "esxtop",
    "esxi.vcenter": "vcenter",
    "esxi.backfill": "replay",
}
"""The sources of lines, by topic."""

NOT_KNOWN = "Not known: see above"
"""Shown instead of an all-clear if no live lines support one."""

MANY_BEHIND = 10_000
"""A consumer group with a larger lag is shown in yellow."""


@dataclass(frozen=True)
class View:
    """The results of all polls at one moment."""

    now: datetime
    incidents: Answer[list[Row]]
    events: Answer[list[Event]]
    flow: Answer[Flow]
    blind_spots: Answer[list[Row]]
    newest_line: Answer[Row]
    hidden_incidents: Answer[int]
    """Number of open incidents of replays that are not shown."""
    site: tzinfo = UTC
    """The time zone of the times shown."""

    @property
    def live_lines(self) -> LiveLines:
        """Return whether live lines arrive."""
        health = self.flow.value.health if self.flow.value else None
        return live_lines(self.newest_line.value, self.newest_line.trouble, health)


def frame(view: View, height: int) -> Layout:
    """Return the whole screen, `height` lines high."""
    below = 12 if height >= 30 else 9
    room = max(8, height - below - 2)
    wanted = len(view.incidents.value or []) * 2 + 3 + bool(view.hidden_incidents.value)
    above = min(max(5, wanted), room // 2)
    layout = Layout()
    layout.split_column(
        Layout(Group(_head(view), _newest_line(view)), size=2),
        Layout(_panel("Open incidents", view.incidents, _incidents(view, above - 2)), size=above),
        Layout(_panel("Latest events", view.events, _events(view, room - above - 2))),
        Layout(name="below", size=below),
    )
    layout["below"].split_row(
        Layout(_panel("Lines per second, last minute", view.flow, _rates(view))),
        Layout(_panel("Consumer lag, messages", view.flow, _lag(view))),
        Layout(_panel("Data quality, last hour", view.blind_spots, _blind_spots(view, below - 2))),
    )
    return layout


def describe(topic: str, event: dict[str, Any], site: tzinfo = UTC) -> Text:
    """Return one line of text for an event, with its time in the site's zone."""
    kind = topic.removeprefix("events.")
    at = event.get("ended_at") or event.get("started_at") or event.get("opened_at") or ""
    shown = in_zone(stored(at), site, "milliseconds") if at else ""
    line = Text(f"{shown:30} {kind:12} ")
    if event.get("is_deleted"):
        return line.append(f"retracted: {event['event_id']}", style="dim")
    style = SEVERITY_STYLES.get(event.get("severity", ""), "")
    if "verdict" in event:
        return line.append(printable(f"{event['state']}: {event['verdict']}"), style=style)
    owner = "/".join(filter(None, (event.get("datastore"), event.get("vm")))) or event.get("host")
    line.append(printable(f"{owner}  "))
    return line.append(printable(" ".join(_facts(event))), style=style)


def _facts(event: dict[str, Any]) -> Iterator[str]:
    """Yield the fields of an event to show in one line, for all kinds of events."""
    for name in ("device", "volume", "path", "name", "kind", "cause", "dialect", "outcome"):
        if event.get(name):
            yield str(event[name])
    if "duration_us" in event:
        yield f"{event['duration_us'] / 1e6:.6f} s"
    for name in ("peak_ms", "steps", "iterations", "count"):
        if event.get(name) is not None:
            yield f"{name} {event[name]}"


def _panel(title: str, answer: Answer[T], shown: RenderableType) -> Panel:
    """Return a panel. If the last poll failed, its error is above the older result."""
    if answer.trouble:
        trouble = Text(printable(answer.trouble), style="red", overflow="ellipsis", no_wrap=True)
        shown = Group(trouble, shown)
    style = "red" if answer.trouble else "dim"
    return Panel(shown, title=title, title_align="left", border_style=style, padding=(0, 1))


def _head(view: View) -> Text:
    line = Text("stunwatch  ", style="bold", no_wrap=True, overflow="ellipsis")
    line.append(f"{in_zone(view.now, view.site)}   ", style="not bold")
    health = view.flow.value.health if view.flow.value else None
    if health is None:
        return line.append("Checking the pipeline …", style="not bold dim")
    if not health.is_running:
        return line.append(
            "Nothing is running. Start it with `stunwatch up`.", style="not bold red"
        )
    # Unhealthy components first, because a narrow terminal cuts the end of the line.
    for each in sorted(health.components, key=lambda each: each.is_healthy):
        word = f"{each.name} ✓  " if each.is_healthy else f"{each.name} ✗ {each.note}  "
        line.append(printable(word), style="not bold green" if each.is_healthy else "not bold red")
    if health.intake:
        line.append(printable(health.intake), style="bold red")
    return line


def _newest_line(view: View) -> Text:
    found = view.live_lines
    return Text(printable(found.sentence), found.style, no_wrap=True, overflow="ellipsis")


def _incidents(view: View, height: int) -> RenderableType:
    rows = view.incidents.value
    if rows is None:
        return _nothing("No data yet")
    hidden = _hidden_incidents(view)
    if not rows:
        is_known = not view.live_lines.is_missing and not view.incidents.trouble
        return _nothing("No open incidents" if is_known else NOT_KNOWN, hidden)
    height -= bool(hidden)
    shown = rows[: max(1, height // 2)]
    table = _table()
    for each in shown:
        style = SEVERITY_STYLES.get(each["severity"], "")
        began = stored(each["opened_at"])
        table.add_row(
            Text(each["severity"], style=style),
            Text(age(view.now - began)),
            Text(each["incident_id"][:8], style="dim"),
            Text(
                f"{each['scope'].replace('_', ' ')}, confidence {each['confidence']},"
                f" {each['affected_hosts']:,} of {each['reporting_hosts']:,} hosts",
                style="dim",
            ),
        )
        table.add_row("", "", "", Text(printable(each["verdict"]), style=style))
    below = [hidden] if hidden else []
    if more := len(rows) - len(shown):
        below.insert(0, f"and {more:,} more: stunwatch incident list")
    return Group(table, _nothing(*below)) if below else table


def _hidden_incidents(view: View) -> str:
    hidden = view.hidden_incidents.value
    if not hidden:
        return ""
    return f"{counted(hidden, 'open incident')} of replays not shown: stunwatch watch --history"


def _events(view: View, height: int) -> RenderableType:
    events = view.events.value
    if events is None:
        return _nothing("No data yet")
    if not events:
        return _nothing("No live events. --history also shows events of replays.")
    lines = [describe(each.topic, each.fields, view.site) for each in events[: max(1, height)]]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _rates(view: View) -> RenderableType:
    flow = view.flow.value
    if flow is None or not flow.health.topics:
        return _nothing("No data")
    table = _table(right=1)
    for topic, source in SOURCES.items():
        table.add_row(source, f"{flow.per_second.get(topic, 0):,.1f}")
    found = sum(rate for name, rate in flow.per_second.items() if name.startswith("events."))
    table.add_row(Text("events found", style="dim"), Text(f"{found:,.1f}", style="dim"))
    return table


def _lag(view: View) -> RenderableType:
    flow = view.flow.value
    if flow is None or not flow.health.topics:
        return _nothing("No data")
    table = _table(right=1)
    for reader, count in sorted(lag_by_reader(flow.health).items()):
        table.add_row(reader, Text(f"{count:,}", style="yellow" if count >= MANY_BEHIND else ""))
    return table


def lag_by_reader(health: Health) -> dict[str, int]:
    """Return the lag of each consumer group in messages, summed over all topics."""
    behind: Counter[str] = Counter()
    for topic in health.topics:
        for reader, count in topic.behind.items():
            behind[reader] += max(0, count)
    return dict(behind)


def _blind_spots(view: View, height: int) -> RenderableType:
    rows = view.blind_spots.value
    if rows is None:
        return _nothing("No data yet")
    if not rows:
        if view.live_lines.is_missing or view.blind_spots.trouble:
            return _nothing(NOT_KNOWN)
        return _nothing("No data-quality events: no known data loss")
    table = _table(right=2)
    for each in rows[: max(1, height - 1)]:
        is_of_all = each["kind"] == "no_live_lines"
        whose = "all hosts" if is_of_all else f"{each['host'] or '?'} {each['source']}"
        count = f"{each['count']:,}"
        if is_of_all and each["since"] is None:
            count = "never any"
        elif each["kind"] in ("no_live_lines", "silent_source"):
            count = age(timedelta(seconds=each["count"]))
        table.add_row(
            Text(each["kind"].replace("_", " "), style="bold red" if is_of_all else "yellow"),
            Text(printable(whose)),
            count,
        )
    if len(rows) > height - 1:
        return Group(table, _nothing(f"and {len(rows) - height + 1:,} more"))
    return table


def _table(right: int | None = None) -> Table:
    """Return a borderless table. Column `right` has numbers; without it, column 4 sentences."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), expand=right is None)
    for number in range(4 if right is None else right + 1):
        table.add_column(
            justify="right" if number == right else "left",
            no_wrap=True,
            overflow="ellipsis",
            # If the line is too long, only the sentence is cut.
            ratio=1 if right is None and number == 3 else None,
        )
    return table


def _nothing(*lines: str) -> Text:
    return Text("\n".join(filter(None, lines)), style="dim")


def age(time: timedelta) -> str:
    """Format a duration: 7 s, 12 min, 3 h 05, 2 d 04 h."""
    whole = max(0, int(time.total_seconds()))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02}"
    return f"{whole // 86400} d {whole % 86400 // 3600:02} h"
