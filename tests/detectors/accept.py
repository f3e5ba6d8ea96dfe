"""Update the expected rows of cases, and the state format, to the current detectors.

`python -m tests.detectors.accept [detector…]`; review the diff before you commit it.
"""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

from stunwatch.detectors.catalogue import detectors
from tests.detectors import state_format
from tests.detectors.cases import (
    Event,
    cases_of,
    final_rows,
    golden_lines,
    joins_of,
    records_by_owner,
    records_of,
    run,
    run_joined,
)


def main(names: list[str]) -> None:
    """Rewrite `expected.jsonl` of every case whose rows differ; then the state format."""
    for detector in detectors():
        if names and detector.name not in names:
            continue
        for case in cases_of(detector):
            rows = final_rows(run(detector, records_of(case / "input.log", detector.owner)))
            _accept(case, rows)
        for join in joins_of(detector):
            _accept(join, final_rows(run_joined(chain(*records_by_owner(join).values()))))
    state_format.accept()


def _accept(case: Path, rows: list[Event]) -> None:
    expected = case / "expected.jsonl"
    if not expected.exists() or expected.read_text() != golden_lines(rows):
        expected.write_text(golden_lines(rows))
        print(f"{case.parents[1].name}/{case.name}: {len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
