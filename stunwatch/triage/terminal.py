"""Prints a triage: the worst stuns, incidents with next steps, other events, missing data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from typing import Any, Final

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stunwatch.incidents.wording import counted
from stunwatch.output import SEVERITY_STYLES
from stunwatch.printable import Terminal
from stunwatch.report.texts import number, seconds
from stunwatch.times import in_zone
from stunwatch.triage.finding import Row
from stunwatch.triage.results import EVENTS, Results, at, same_steps

MOST_LEFT_OUT: Final = 10
LONGEST_LINE: Final = 300
"""Maximum characters of a log line; the page and the JSON output have all of it."""


def show(results: Results, top: int, terminal: Terminal, site: tzinfo) -> None:
    """Print everything, with at most `top` stuns and incidents. `site` is the zone of times."""
    terminal.print(Text(headline(results, site), style="bold"))
    for title, parts in (
        ("Worst stuns", _stuns(results.stuns, top, site)),
        ("Incidents", _incidents(results.incidents, top, site)),
        ("Other events", _others(results)),
        ("Data quality", _quality(results)),
        ("Left out", _left_out(results)),
    ):
        terminal.print()
        terminal.print(Text(title, style="bold underline"))
        for part in parts:
            terminal.print(part, highlight=False)


def headline(results: Results, site: tzinfo) -> str:
    """Return one sentence with what was read and found."""
    found = [
        counted(len(results.incidents), "incident"),
        counted(len(results.stuns), "stun"),
        counted(len(results.rows["reservation_conflicts"]), "reservation conflict"),
    ]
    read = [
        counted(results.lines, "line"),
        counted(len(results.logs), "log"),
        counted(len(results.hosts), "host"),
        counted(len(results.vms), "VM"),
    ]
    when = ""
    if results.first_at and results.last_at:
        first, last = (
            in_zone(each, site, "minutes") for each in (results.first_at, results.last_at)
        )
        when = f" from {first} to {last}"
    return f"{', '.join(found)} in {', '.join(read)}{when}"


def _incidents(incidents: Sequence[Row], top: int, site: tzinfo) -> Iterator[Any]:
    if not incidents:
        yield "No incidents."
    same = same_steps(incidents[:top])
    for place, each in enumerate(incidents[:top], 1):
        until = f" to {_minute(each['closed_at'], site)}" if each["closed_at"] else ""
        yield Text.assemble(
            f"{place}. ",
            (each["severity"], SEVERITY_STYLES[each["severity"]]),
            f", {each['state']}, scope {each['scope'].replace('_', ' ')},"
            f" confidence {each['confidence']}, {_minute(each['opened_at'], site)}{until}",
        )
        yield _indented(each["verdict"])
        for line in each["evidence"][:1]:
            yield _indented(f"Evidence: {_cut(line)}", style="dim")
        if not each["next_steps"]:
            continue
        if first := same.get(each["event_id"]):
            yield _indented(f"Next steps: as for incident {first}.")
            continue
        yield _indented("Next steps:")
        for step_place, step in enumerate(each["next_steps"], 1):
            yield _indented(f"{step_place}. {step['step']}, because {step['because']}", 5)
            if step["risk_level"] != "none":
                yield _indented(f"First: {step['precondition']}", 8)
                yield _indented(f"Risk: {step['risk']}", 8)
    yield from _more(len(incidents) - top)


def _stuns(stuns: Sequence[Row], top: int, site: tzinfo) -> Iterator[Any]:
    if not stuns:
        yield "No stuns."
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="underline")
    for title in ("#", "Ended at", "VM", "Datastore", "Stunned", "Cause"):
        justify: Any = "right" if title in ("#", "Stunned") else "left"
        is_name = title in ("VM", "Datastore")
        table.add_column(title, justify=justify, no_wrap=not is_name, overflow="fold")
    for place, each in enumerate(stuns[:top], 1):
        table.add_row(
            str(place),
            in_zone(at(each["ended_at"]), site),
            each["vm"] or each["host"],
            each["datastore"],
            Text(seconds(each["duration_us"]), style=SEVERITY_STYLES[each["severity"]]),
            each["cause"],
        )
    yield table
    yield "Evidence:"
    for place, each in enumerate(stuns[:top], 1):
        for line in each["evidence"][:1]:
            yield Text(f"{place:3}  {_cut(line)}", style="dim")
    yield from _more(len(stuns) - top)


def _others(results: Results) -> Iterator[Any]:
    counts = [
        f"{name}: {len(results.rows[view]):,}"
        for view, name in EVENTS.items()
        if view != "stuns" and results.rows[view]
    ]
    yield "\n".join(counts) if counts else "No other events."


def _quality(results: Results) -> Iterator[Any]:
    if not results.quality:
        yield "No known data loss: every line was read and searched."
    for each in results.quality:
        yield f"{each.what}: {number(each.count)}" if each.count else f"{each.what}."
        if each.example:
            yield _indented(_cut(each.example), 5, style="dim")


def _left_out(results: Results) -> Iterator[Any]:
    if not results.left_out and not results.skipped:
        yield "Nothing: every file was read."
    for each in results.left_out[:MOST_LEFT_OUT]:
        yield f"{each.path}: {each.sentence}"
    yield from _more(len(results.left_out) - MOST_LEFT_OUT)
    if results.skipped:
        names = ", ".join(results.skipped[:3])
        others = "" if len(results.skipped) <= 3 else ", …"
        yield f"{counted(len(results.skipped), 'other file')} that are not logs: {names}{others}"


def _more(count: int) -> Iterator[Any]:
    if count > 0:
        yield Text(f"and {count:,} more; --format json has all of them", style="dim")


def _indented(text: str, columns: int = 3, style: str = "") -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, columns), expand=False)


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…"


def _minute(text: str, site: tzinfo) -> str:
    return in_zone(at(text), site, "minutes")
