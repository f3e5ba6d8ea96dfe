"""`stunwatch audit`: compares events with log lines, and files with their stored lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from stunwatch.audit.events import (
    CHECKS,
    DIFFERENCES,
    NOT_RECOMPUTED,
    Comparison,
    Span,
    all_spans,
    compare,
    kept_since,
)
from stunwatch.audit.files import Finder, StoredFile, look_again, stored_files
from stunwatch.audit.repair import repair as ship_again
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.ingest.replay import Options
from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import Terminal, printable
from stunwatch.settings import load_settings
from stunwatch.times import zone

EXIT_DIFFERS = 1

SETTLING_S = 3.0
"""Time before differences are checked again, because a live line may be stored before its event."""

MOST_LOOKS = 6


def audit(
    repair: Annotated[
        bool, typer.Option("--repair", help="Send missing parts of files again.")
    ] = False,
    tz: Annotated[
        str, typer.Option(help="With --repair: the time zone that was given to `replay`.")
    ] = "UTC",
    year: Annotated[
        int | None, typer.Option(help="With --repair: the year that was given to `replay`.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="With --repair: the host that was given to `replay`.")
    ] = None,
    most: Annotated[
        int, typer.Option("--most", "-n", min=0, help="Show at most this many of each kind.")
    ] = 20,
    output: FormatOption = Format.TABLE,
) -> None:
    """Compare stuns and count-downs with their log lines, and files with what is stored of them.

    ClickHouse computes from the lines alone what Flink should have found, and lists events that are
    missing, extra or different. For every file it lists the bytes that never arrived. Exit code 1
    if anything differs. Not compared: the causes of stuns, the VM of a vMotion duration that a host
    reported, conflicts that are not count-downs, and all other views.

    Examples:

        stunwatch audit

        stunwatch audit --repair
    """
    settings = load_settings()
    clickhouse = as_user(settings, "analyst")
    console = Terminal(stderr=True)
    found = examine(clickhouse, console)
    refused: dict[str, str] = {}
    if repair and found.gaps:
        options = Options(host=host, zone=zone(tz), year=year)
        done = ship_again(settings, clickhouse, found.gaps, options, console)
        refused = {file.generation: sentence for file, sentence in done.refused}
        found = examine(clickhouse, console)
    if output is Format.JSON:
        print_json(found.as_json(most))
    else:
        show(found, refused, most, Terminal())
    if not found.is_clean:
        raise typer.Exit(EXIT_DIFFERS)


@dataclass
class Findings:
    """The result of an audit."""

    events: dict[str, Comparison] = field(default_factory=dict)
    """By the name of the check."""
    gaps: list[StoredFile] = field(default_factory=list)
    files: int = 0
    measured: int = 0
    """Number of files that are on this machine and were compared with their size."""

    @property
    def is_clean(self) -> bool:
        """True if nothing differs."""
        return not self.gaps and not any(each.differs for each in self.events.values())

    @property
    def sentence(self) -> str:
        """The result in a few sentences."""
        *most, last = [f"{each.same:,} {_NAMES[name]}" for name, each in self.events.items()]
        same = f"{', '.join(most)} and {last}"
        expired = sum(each.expired for each in self.events.values())
        old = f" {expired:,} older events were not: their lines have expired." if expired else ""
        measured = f"{self.measured:,} of {self.files:,} files were compared with their size."
        rest = f"{measured}{old} Not compared: {NOT_RECOMPUTED}."
        if self.is_clean:
            return f"Nothing differs: {same} match their lines, and no byte is missing. {rest}"
        wrong = [
            f"{each.counts[finding]:,} {_NAMES[name]} {_SPOKEN[finding]}"
            for name, each in self.events.items()
            for finding in DIFFERENCES
            if each.counts[finding]
        ]
        if self.gaps:
            missing = sum(each.gap_bytes for each in self.gaps)
            wrong.append(f"{missing:,} bytes of {len(self.gaps):,} files are missing")
        return f"Differences: {', '.join(wrong)}; {same} match their lines. {rest}"

    def as_json(self, most: int) -> dict[str, Any]:
        """Return the content of `--format json`."""
        return {
            "is_clean": self.is_clean,
            "not_compared": NOT_RECOMPUTED,
            "events": {
                name: {
                    "same": each.same,
                    "expired": each.expired,
                    **each.counts,
                    "differences": [
                        {
                            "finding": one.finding,
                            "owner": one.owner,
                            "at": one.anchor,
                            "recomputed": one.recomputed,
                            "stored": one.stored,
                        }
                        for one in each.differences[:most]
                    ],
                }
                for name, each in self.events.items()
            },
            "files": {
                "count": self.files,
                "measured": self.measured,
                "gaps": [
                    {
                        "file": each.name,
                        "path": str(each.path) if each.path else None,
                        "generation": each.generation,
                        "gaps": each.gaps,
                        "gap_bytes": each.gap_bytes,
                    }
                    for each in self.gaps[:most]
                ],
            },
        }


_NAMES = {
    "stuns": "stuns",
    "migrations": "vMotion durations",
    "sync_cr_countdowns": "count-downs",
}
_SPOKEN = {"missing": "are missing", "extra": "lack log lines", "different": "differ"}


def examine(clickhouse: ClickHouse, console: Console) -> Findings:
    """Compare all events and files; repeat for differences until they stay the same."""
    since = kept_since(clickhouse)
    parts = [(check, span) for check in CHECKS for span in all_spans(clickhouse, check)]
    with _progress(console) as progress:
        task = progress.add_task("events", total=len(parts))
        compared: list[tuple[str, Span, Comparison]] = []
        for check, span in parts:
            progress.update(task, description=f"{_NAMES[check]} to {span.end_at[:10]}")
            compared.append((check, span, compare(clickhouse, check, span, since)))
            progress.advance(task)
        task = progress.add_task("files", total=None)
        files = stored_files(clickhouse)
        progress.update(task, total=len(files))
        found = Findings(files=len(files))
        finder = Finder()
        for file in files:
            now = finder.measure(file)
            found.measured += now.size is not None
            if now.gaps:
                found.gaps.append(now)
            progress.advance(task)
        for _ in range(MOST_LOOKS):
            if not found.gaps and not any(each.differs for _, _, each in compared):
                break
            time.sleep(SETTLING_S)
            again = [
                (check, span, compare(clickhouse, check, span, since) if each.differs else each)
                for check, span, each in compared
            ]
            gaps = [each for each in look_again(clickhouse, found.gaps) if each.gaps]
            is_settled = again == compared and gaps == found.gaps
            compared, found.gaps = again, gaps
            if is_settled:
                break
    for check, _, each in compared:
        found.events.setdefault(check, Comparison()).add(each)
    return found


def show(found: Findings, refused: dict[str, str], most: int, console: Console) -> None:
    """Print a table of each kind of difference, and the result in a few sentences."""
    for name, each in found.events.items():
        for finding in DIFFERENCES:
            if each.counts[finding]:
                console.print(_events(name, finding, each, most))
    if found.gaps:
        console.print(_gaps(found.gaps, refused, most))
    style = "green" if found.is_clean else "red"
    console.print(found.sentence, style=style, highlight=False, soft_wrap=True)


def _events(name: str, finding: str, compared: Comparison, most: int) -> Table:
    count = compared.counts[finding]
    shown = [each for each in compared.differences if each.finding == finding][:most]
    title = f"{count:,} {_NAMES[name]} {_SPOKEN[finding]}"
    if len(shown) < count:
        title += f", the first {len(shown):,}"
    table = Table(title=title)
    anchor = "began at (UTC)" if name == "sync_cr_countdowns" else "ended at (UTC)"
    is_different = finding == "different"
    source = "from the lines" if finding == "missing" else "in the view"
    for column in (
        *("log of", anchor),
        *(("field", "from the lines", "in the view") if is_different else (source,)),
    ):
        table.add_column(column, overflow="fold")
    for each in shown:
        whose = _shown(each.owner), _shown(each.anchor)
        if is_different:
            for field_name, mine, theirs in each.fields:
                table.add_row(*whose, field_name, _shown(mine) or "-", _shown(theirs) or "-")
                whose = "", ""
        else:
            rows = each.recomputed or each.stored
            table.add_row(*whose, "\n".join(_shown(_told(row)) for row in rows))
    return table


def _shown(text: str) -> str:
    """Return log text without control characters, on one line of a table."""
    return printable(text)


def _told(row: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value)


def _gaps(files: list[StoredFile], refused: dict[str, str], most: int) -> Table:
    table = Table(title="Files with missing bytes")
    for column in ("file", "missing", "bytes", "note"):
        table.add_column(column, overflow="fold")
    for each in files[:most]:
        first = [f"{start:,} to {end:,}" for start, end in each.gaps[:5]]
        if len(each.gaps) > 5:
            first.append(f"and {len(each.gaps) - 5:,} more")
        if sentence := refused.get(each.generation):
            note = f"not repaired: {sentence}"
        elif each.path is None:
            note = "the file is not on this machine"
        elif str(each.path) != each.name:
            note = f"the file is now {each.path}"
        else:
            note = ""
        table.add_row(_shown(each.name), "\n".join(first), f"{each.gap_bytes:,}", _shown(note))
    return table


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    columns = (
        TextColumn("{task.description:10}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress
