"""The benchmark's commands.

python -m tests.corpus export FOLDER     write the lines of each case as a log file
python -m tests.corpus detect            print what this project finds, as JSON lines
python -m tests.corpus score RESULTS     compare JSON lines with the truth; exit 1 below a limit
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.corpus.cases import VERSION, cases, export
from tests.corpus.scoring import Report, score

SHOWN = 20
"""Maximum number of cases to print for each kind of mistake."""


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus")
    commands = parser.add_subparsers(dest="command", required=True)
    exporting = commands.add_parser("export", help="write the lines of each case as a log file")
    exporting.add_argument("folder", type=Path)
    commands.add_parser("detect", help="print what this project finds, as JSON lines")
    scoring = commands.add_parser("score", help="compare results with the truth")
    scoring.add_argument("results", type=Path, help='lines {"case": id, "events": […]}')
    scoring.add_argument("--precision", type=float, default=1.0, help="limit, default 1")
    scoring.add_argument("--recall", type=float, default=1.0, help="limit, default 1")
    scoring.add_argument("--wrong", type=int, default=0, help="wrong causes allowed, default 0")
    scoring.add_argument("--quiet", type=int, default=0, help="signals on quiet cases allowed")
    given = parser.parse_args(words)
    if given.command == "export":
        export(given.folder, cases())
        print(f"{len(cases())} cases of version {VERSION} written to {given.folder}")
        return 0
    if given.command == "detect":
        # Imported here because `score` must run without the project's other packages.
        from tests.corpus.detect import result_of  # noqa: PLC0415

        for case in cases():
            print(json.dumps(result_of(case), ensure_ascii=False))
        return 0
    try:
        results = read(given.results)
    except (OSError, ValueError) as problem:
        print(f"Cannot read {given.results}: {problem}", file=sys.stderr)
        return 2
    report = score(cases(), results)
    print(table(report))
    total = report.total
    is_good = (
        total.precision >= given.precision
        and total.recall >= given.recall
        and total.wrong <= given.wrong
        and report.false_on_quiet.total() <= given.quiet
        and not report.unknown
    )
    return 0 if is_good else 1


def read(path: Path) -> dict[str, list[Mapping[str, Any]]]:
    """Return the events by case. Raises ValueError with the number of an invalid line."""
    results: dict[str, list[Mapping[str, Any]]] = {}
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            result = json.loads(line)
            case, events = result["case"], result["events"]
        except (ValueError, TypeError, KeyError):
            raise ValueError(f'line {number} is not {{"case": …, "events": […]}}') from None
        if not isinstance(events, list) or not all(isinstance(each, dict) for each in events):
            raise ValueError(f"line {number}: events is not a list of objects")
        results.setdefault(str(case), []).extend(events)
    return results


def table(report: Report) -> str:
    """Return the figures by type, and the cases with mistakes, as text."""
    rows = [f"{'type':<12}{'true':>6}{'found':>7}{'precision':>11}{'recall':>8}{'wrong':>7}"]
    for name, each in (*report.scores.items(), ("all", report.total)):
        rows.append(
            f"{name:<12}{each.true:>6}{each.found:>7}"
            f"{each.precision:>11.3f}{each.recall:>8.3f}{each.wrong:>7}"
        )
    rows.append(f"false signals on quiet cases: {report.false_on_quiet.total()}")
    for title, names in (
        ("not found", report.missing),
        ("false", sorted(report.false)),
        ("no such case", report.unknown),
    ):
        rows += [f"{title}: {name}" for name in names[:SHOWN]]
        if len(names) > SHOWN:
            rows.append(f"{title}: {len(names) - SHOWN} more")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
