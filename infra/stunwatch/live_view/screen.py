"""One frame of the live view, from what the polls know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from stunwatch.live_view.polls import Answer, Event, Flow, Row
from stunwatch.printable import printable
from stunwatch.runtime.health import Health

T = TypeVar("T")

SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow", "notice": "cyan", "normal": "dim"}

SOURCES = {
    "esxi.syslog": "syslog",
    "esxi.vmware_log": "vmware.log",
    "esxi.esxtop": "esxtop",
    "esxi.vcenter": "vcenter",
    "esxi.backfill": "replay",
}
"""What comes in, by topic."""

MANY_BEHIND = 10_000
"""A reader that is so many messages behind is shown in yellow."""


@dataclass(frozen=True)
class View:
    """What is known at one moment."""

    now: datetime
    incidents: Answer[list[Row]]
    events: Answer[list[Event]]
    flow: Answer[Flow]
    blind_spots: Answer[list[Row]]


def frame(view: View, height: int) -> Layout:
    """All of it, `height` lines high."""
    below = 12 if height >= 30 else 9
    room = max(8, height - below - 1)
    wanted = len(view.incidents.value or []) * 2 + 3
    above = min(max(5, wanted), room // 2)
    layout = Layout()
    layout.split_column(
        Layout(_head(view), size=1),
        Layout(_panel("open incidents", view.incidents, _incidents(view, above - 2)), size=above),
        Layout(_panel("last events", view.events, _events(view, room - above - 2))),
        Layout(name="below", size=below),
    )
    layout["below"].split_row(
        Layout(_panel("lines a second, last minute", view.flow, _rates(view))),
        Layout(_panel("not read yet", view.flow, _lag(view))),
        Layout(_panel("blind spots, last hour", view.blind_spots, _blind_spots(view, below - 2))),
    )
    return layout


def describe(topic: str, event: dict[str, Any]) -> Text:
    """One line of text for an event."""
    kind = topic.removeprefix("events.")
    at = event.get("ended_at") or event.get("started_at") or event.get("opened_at") or ""
    line = Text(f"{at:27} {kind:12} ")
    if event.get("is_deleted"):
        return line.append(f"taken back: {event['event_id']}", style="dim")
    style = SEVERITY_STYLES.get(event.get("severity", ""), "")
    if "verdict" in event:
        return line.append(printable(f"{event['state']}: {event['verdict']}"), style=style)
    owner = "/".join(filter(None, (event.get("datastore"), event.get("vm")))) or event.get("host")
    line.append(printable(f"{owner}  "))
    return line.append(printable(" ".join(_facts(event))), style=style)


def _facts(event: dict[str, Any]) -> Iterator[str]:
    """What is worth saying of an event in one line, whatever its kind."""
    for name in ("device", "volume", "path", "name", "kind", "cause", "dialect", "outcome"):
        if event.get(name):
            yield str(event[name])
    if "duration_us" in event:
        yield f"{event['duration_us'] / 1e6:.6f} s"
    for name in ("peak_ms", "steps", "iterations", "count"):
        if event.get(name) is not None:
            yield f"{name} {event[name]}"


def _panel(title: str, answer: Answer[T], shown: RenderableType) -> Panel:
    """A panel; where the last question failed it says why above what was known before."""
    if answer.trouble:
        trouble = Text(printable(answer.trouble), style="red", overflow="ellipsis", no_wrap=True)
        shown = Group(trouble, shown)
    style = "red" if answer.trouble else "dim"
    return Panel(shown, title=title, title_align="left", border_style=style, padding=(0, 1))


def _head(view: View) -> Text:
    line = Text("stunwatch  ", style="bold", no_wrap=True, overflow="ellipsis")
    line.append(f"{view.now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC   ", style="not bold")
    health = view.flow.value.health if view.flow.value else None
    if health is None:
        return line.append("looking at the pipeline …", style="not bold dim")
    if not health.is_running:
        return line.append("nothing runs: `stunwatch up` starts it", style="not bold red")
    # What is wrong comes first: a narrow terminal cuts the rest.
    for each in sorted(health.components, key=lambda each: each.is_healthy):
        word = f"{each.name} ✓  " if each.is_healthy else f"{each.name} ✗ {each.note}  "
        line.append(printable(word), style="not bold green" if each.is_healthy else "not bold red")
    if health.intake:
        line.append(printable(health.intake), style="bold red")
    return line


def _incidents(view: View, height: int) -> RenderableType:
    rows = view.incidents.value
    if rows is None:
        return _nothing("not known yet")
    if not rows:
        return _nothing("none")
    shown = rows[: max(1, height // 2)]
    table = _table()
    for each in shown:
        style = SEVERITY_STYLES.get(each["severity"], "")
        began = datetime.fromisoformat(each["opened_at"]).replace(tzinfo=UTC)
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
    if more := len(rows) - len(shown):
        return Group(table, _nothing(f"and {more:,} more: stunwatch incident list"))
    return table


def _events(view: View, height: int) -> RenderableType:
    events = view.events.value
    if events is None:
        return _nothing("not known yet")
    if not events:
        return _nothing("none; --history also shows what replays find")
    lines = [describe(each.topic, each.fields) for each in events[: max(1, height)]]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines)


def _rates(view: View) -> RenderableType:
    flow = view.flow.value
    if flow is None or not flow.health.topics:
        return _nothing("not known")
    table = _table(right=1)
    for topic, source in SOURCES.items():
        table.add_row(source, f"{flow.per_second.get(topic, 0):,.1f}")
    found = sum(rate for name, rate in flow.per_second.items() if name.startswith("events."))
    table.add_row(Text("events found", style="dim"), Text(f"{found:,.1f}", style="dim"))
    return table


def _lag(view: View) -> RenderableType:
    flow = view.flow.value
    if flow is None or not flow.health.topics:
        return _nothing("not known")
    table = _table(right=1)
    for reader, count in sorted(lag_by_reader(flow.health).items()):
        table.add_row(reader, Text(f"{count:,}", style="yellow" if count >= MANY_BEHIND else ""))
    return table


def lag_by_reader(health: Health) -> dict[str, int]:
    """How many messages of all topics together each consumer group has not read yet."""
    behind: Counter[str] = Counter()
    for topic in health.topics:
        for reader, count in topic.behind.items():
            behind[reader] += max(0, count)
    return dict(behind)


def _blind_spots(view: View, height: int) -> RenderableType:
    rows = view.blind_spots.value
    if rows is None:
        return _nothing("not known yet")
    if not rows:
        return _nothing("none: every source is heard")
    table = _table(right=2)
    for each in rows[: max(1, height - 1)]:
        is_silent = each["kind"] == "silent_source"
        table.add_row(
            Text(each["kind"].replace("_", " "), style="yellow"),
            Text(printable(f"{each['host'] or '?'} {each['source']}")),
            age(timedelta(seconds=each["count"])) if is_silent else f"{each['count']:,}",
        )
    if len(rows) > height - 1:
        return Group(table, _nothing(f"and {len(rows) - height + 1:,} more"))
    return table


def _table(right: int | None = None) -> Table:
    """Columns without lines; the one at `right` holds numbers, else the last of four a sentence."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), expand=right is None)
    for number in range(4 if right is None else right + 1):
        table.add_column(
            justify="right" if number == right else "left",
            no_wrap=True,
            overflow="ellipsis",
            # A long sentence is cut, and not what stands before it.
            ratio=1 if right is None and number == 3 else None,
        )
    return table


def _nothing(words: str) -> Text:
    return Text(words, style="dim")


def age(time: timedelta) -> str:
    """7 s, 12 min, 3 h 05, 2 d 04 h."""
    whole = max(0, int(time.total_seconds()))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02}"
    return f"{whole // 86400} d {whole % 86400 // 3600:02} h"
