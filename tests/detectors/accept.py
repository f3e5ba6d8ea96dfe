"""Take what the detectors give today as what their cases expect.

`python -m tests.detectors.accept [detector…]`; read the difference before you commit it.
"""

from __future__ import annotations

import sys

from detectors.catalogue import detectors
from tests.detectors.cases import cases_of, final_rows, golden_lines, records_of, run


def main(names: list[str]) -> None:
    """Rewrite `expected.jsonl` of every case whose rows differ, and name it."""
    for detector in detectors():
        if names and detector.name not in names:
            continue
        for case in cases_of(detector):
            rows = final_rows(run(detector, records_of(case / "input.log", detector.owner)))
            expected = case / "expected.jsonl"
            if not expected.exists() or expected.read_text() != golden_lines(rows):
                expected.write_text(golden_lines(rows))
                print(f"{detector.name}/{case.name}: {len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
