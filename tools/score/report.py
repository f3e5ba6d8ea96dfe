"""Prints the score as a table, and returns it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tools.score.figures import Section
from tools.score.matching import Row


def show(sections: Sequence[Section], console: Console) -> None:
    """Print the table, the confusion of causes, and examples of mismatches."""
    table = Table("view", "figure", "value", "limit", "")
    for section in sections:
        for number, each in enumerate(section.figures):
            limit = f"{'≤' if each.is_most else '≥'} {each.limit:g}"
            mark = Text("✓", "green") if each.is_met else Text("✗", "red")
            value = f"{each.value:,.4f}".rstrip("0").rstrip(".")
            table.add_row("" if number else section.name, each.name, value, limit, mark)
    console.print(table)
    for section in sections:
        if section.confusion:
            _show_confusion(section, console)
        for kind, count in section.counts.most_common():
            console.print(Text.assemble("\n", (f"{section.name}: {kind}", "bold"), f" ({count})"))
            for example in section.examples[kind]:
                console.print(
                    orjson.dumps(example, option=orjson.OPT_INDENT_2).decode(),
                    highlight=False,
                    markup=False,
                    soft_wrap=True,
                )


def _show_confusion(section: Section, console: Console) -> None:
    causes = sorted({*section.confusion, *(c for r in section.confusion.values() for c in r)})
    grid = Table("true \\ found", *causes)
    for cause, row in sorted(section.confusion.items()):
        grid.add_row(cause, *(str(row[each] or "·") for each in causes))
    console.print(grid)


def report(about: Row, sections: Sequence[Section]) -> Row:
    """Return the content of build/score.json."""
    return {
        **about,
        "is_met": all(each.is_met for each in sections),
        "sections": [
            {
                "name": each.name,
                "figures": [{**asdict(f), "is_met": f.is_met} for f in each.figures],
                "differences": dict(each.counts),
                "examples": dict(each.examples),
                "confusion": {cause: dict(row) for cause, row in each.confusion.items()},
            }
            for each in sections
        ],
    }
