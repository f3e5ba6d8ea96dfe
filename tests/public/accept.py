"""Rewrite `golden/` from the present code. Read the difference before you commit it.

`python -m tests.public.accept [text…]`. Starts a ClickHouse for `views` and `queries`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.clickhouse_server import running
from tests.public.texts import MADE, MADE_BY_CLICKHOUSE, golden


def main(names: list[str]) -> None:
    """Rewrite the named texts, or all, and print the path of each that differs."""
    wanted = names or [*MADE, *MADE_BY_CLICKHOUSE]
    for name in wanted:
        if name in MADE:
            _accept(name, MADE[name]())
    if by_clickhouse := [name for name in wanted if name in MADE_BY_CLICKHOUSE]:
        with tempfile.TemporaryDirectory() as home, running(Path(home)) as server:
            for name in by_clickhouse:
                _accept(name, MADE_BY_CLICKHOUSE[name](server.admin))


def _accept(name: str, text: str) -> None:
    path = golden(name)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
