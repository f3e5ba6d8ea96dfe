"""Rewrites `expected.jsonl` of the inventory cases with the code's current output. Check the diff.

python -m tests.inventory.accept [case …]
"""

from __future__ import annotations

import sys

from tests.inventory.golden import CASES, golden


def main() -> None:
    for case in CASES:
        if not sys.argv[1:] or case.name in sys.argv[1:]:
            (case / "expected.jsonl").write_text(golden(case))


if __name__ == "__main__":
    main()
