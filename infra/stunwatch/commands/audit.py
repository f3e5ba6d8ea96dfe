"""`stunwatch audit`: do events and lines agree, and are all bytes there?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ingest.replay import Options
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
from stunwatch.commands.replay import zone
from stunwatch.printable import printable
from stunwatch.settings import load_settings

EXIT_DIFFERS = 1

SETTLING_S = 3.0
"""What differs is looked at again after so long: a live line may be stored before its event is."""

MOST_LOOKS = 6


class Output(StrEnum):
    """How the findings are shown."""

    TABLE = "table"
    JSON = "json"


def audit(
    repair: Annotated[
        bool, typer.Option("--repair", help="Ship missing bytes of files again.")
    ] = False,
    tz: Annotated[
        str, typer.Option(help="With --repair: the zone of stamps without one, as at the replay.")
    ] = "UTC",
    year: Annotated[
        int | None, typer.Option(help="With --repair: the year of the first stamp without one.")
    ] = None,
    host: Annotated[
        str | None, typer.Option(help="With --repair: the host, where no line names one.")
    ] = None,
    most: Annotated[int, typer.Option("--most", "-n", help="Show so many of each kind.")] = 20,
    output: Annotated[Output, typer.Option("--format", "-f", help="table or json.")] = Output.TABLE,
) -> None:
    """Compare stuns and count-downs with their lines, and files with what is stored of them.

    ClickHouse works out from the lines alone what Flink should have found, and says which events
    are missing, extra or different. Of every file it tells which bytes never arrived. Exit code 1
    if anything differs. Not worked out again are the causes of stuns, the VM that a host's number
    of a vMotion belongs to, conflicts that are no count-down, and every other view.

    Examples:

        stunwatch audit

        stunwatch audit --repair
    """
    settings = load_settings()
    clickhouse = as_user(settings, "reader")
    console = Console(stderr=True)
    found = examine(clickhouse, console)
    refused: dict[str, str] = {}
    if repair and found.gaps:
        options = Options(host=host, zone=zone(tz), year=year)
        done = ship_again(settings, clickhouse, found.gaps, options, console)
        refused = {file.generation: sentence for file, sentence in done.refused}
        found = examine(clickhouse, console)
    if output is Output.JSON:
        typer.echo(json.dumps(found.as_json(most)))
    else:
        show(found, refused, most, Console())
    if not found.is_clean:
        raise typer.Exit(EXIT_DIFFERS)


@dataclass
class Findings:
    """What an audit found."""

    events: dict[str, Comparison] = field(default_factory=dict)
    """By the name of the check."""
    gaps: list[StoredFile] = field(default_factory=list)
    files: int = 0
    measured: int = 0
    """So many of the files are on this machine and were compared with their size."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing differs."""
        return not self.gaps and not any(each.differs for each in self.events.values())

    @property
    def sentence(self) -> str:
        """All of it in a sentence or two."""
        *most, last = [f"{each.same:,} {_NAMES[name]}" for name, each in self.events.items()]
        same = f"{', '.join(most)} and {last}"
        expired = sum(each.expired for each in self.events.values())
        old = f" Of {expired:,} older ones the lines are not kept any more." if expired else ""
        measured = f"{self.measured:,} of {self.files:,} files were compared with their size."
        rest = f"{measured}{old} Not compared: {NOT_RECOMPUTED}."
        if self.is_clean:
            return (
                f"Nothing differs: {same} are what their lines tell, and no byte is missing; {rest}"
            )
        wrong = [
            f"{each.counts[finding]:,} {_NAMES[name]} {_SPOKEN[finding]}"
            for name, each in self.events.items()
            for finding in DIFFERENCES
            if each.counts[finding]
        ]
        if self.gaps:
            missing = sum(each.gap_bytes for each in self.gaps)
            wrong.append(f"{missing:,} bytes of {len(self.gaps):,} files are missing")
        return f"It differs: {', '.join(wrong)}; {same} are as told. {rest}"

    def as_json(self, most: int) -> dict[str, Any]:
        """What `--format json` prints."""
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
    "migrations": "vMotion numbers of hosts",
    "sync_cr_countdowns": "count-downs",
}
_SPOKEN = {"missing": "are missing", "extra": "have no line", "different": "differ"}


def examine(clickhouse: ClickHouse, console: Console) -> Findings:
    """Compare everything; what differs is looked at again until it stays the same."""
    since = kept_since(clickhouse)
    parts = [(check, span) for check in CHECKS for span in all_spans(clickhouse)]
    with _progress(console) as progress:
        task = progress.add_task("events", total=len(parts))
        compared: list[tuple[str, Span, Comparison]] = []
        for check, span in parts:
            compared.append((check, span, compare(clickhouse, check, span, since)))
            progress.advance(task)
        task = progress.add_task("files", total=None)
        files = stored_files(clickhouse, since)
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
            gaps = [each for each in look_again(clickhouse, found.gaps, since) if each.gaps]
            is_settled = again == compared and gaps == found.gaps
            compared, found.gaps = again, gaps
            if is_settled:
                break
    for check, _, each in compared:
        found.events.setdefault(check, Comparison()).add(each)
    return found


def show(found: Findings, refused: dict[str, str], most: int, console: Console) -> None:
    """The tables of what differs, and a sentence."""
    for name, each in found.events.items():
        for finding in DIFFERENCES:
            if each.counts[finding]:
                console.print(_events(name, finding, each, most))
    if found.gaps:
        console.print(_gaps(found.gaps, refused, most))
    style = "green" if found.is_clean else "red"
    console.print(f"[{style}]{found.sentence}", highlight=False, soft_wrap=True)


def _events(name: str, finding: str, compared: Comparison, most: int) -> Table:
    count = compared.counts[finding]
    shown = [each for each in compared.differences if each.finding == finding][:most]
    title = f"{count:,} {_NAMES[name]} {_SPOKEN[finding]}"
    if len(shown) < count:
        title += f", the first {len(shown):,}"
    table = Table(title=title)
    anchor = "began at (UTC)" if name == "sync_cr_countdowns" else "ended at (UTC)"
    is_different = finding == "different"
    says = "the lines tell" if finding == "missing" else "the view shows"
    for column in (
        *("whose", anchor),
        *(("what", "the lines tell", "the view shows") if is_different else (says,)),
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
    """Text from logs in a table: no markup, no command to the terminal."""
    return escape(printable(text))


def _told(row: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value)


def _gaps(files: list[StoredFile], refused: dict[str, str], most: int) -> Table:
    table = Table(title="Files of which bytes are missing")
    for column in ("file", "missing", "bytes", "note"):
        table.add_column(column, overflow="fold")
    for each in files[:most]:
        first = [f"{start:,} to {end:,}" for start, end in each.gaps[:5]]
        if len(each.gaps) > 5:
            first.append(f"and {len(each.gaps) - 5:,} more")
        if sentence := refused.get(each.generation):
            note = f"not repaired: {sentence}"
        elif each.path is None:
            note = "it is not on this machine"
        elif str(each.path) != each.name:
            note = f"it is now {each.path}"
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
