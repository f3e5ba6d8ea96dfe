"""Write the generated pages: `make docs`. Read the difference before you commit it.

Starts a ClickHouse to query the types of the views' columns.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from stunwatch.clickhouse import ClickHouse
from stunwatch.schema import SQL
from tests.clickhouse_server import running
from tools.documentation import Columns, pages

# SELECT * FROM log_lines_with(words = 'lost access'), above a view that takes parameters
_EXAMPLE = re.compile(r"^-- +SELECT \* FROM (\w+\([^)]+\))$", re.MULTILINE)
_NEXT_LINE = re.compile(r"\n-- +")


def columns_of(reader: ClickHouse) -> Columns:
    """Return the columns of every public view, in order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((SQL / "views").glob("*.sql")):
        text = path.read_text()
        if "\n-- Internal: " in text:
            continue
        example = _EXAMPLE.search(text)
        asked = _NEXT_LINE.sub(" ", example[1]) if example else path.stem
        rows = reader.rows(f"DESCRIBE (SELECT * FROM {asked})")
        # The type of a tuple has several lines.
        found[path.stem] = [
            (name, " ".join(kind.split()).replace("( ", "(")) for name, kind, *_ in rows
        ]
    return found


def main() -> None:
    """Rewrite every page that differs, and print its path."""
    with tempfile.TemporaryDirectory() as home, running(Path(home)) as server:
        made = pages(columns_of(server.reader))
    for path, text in made.items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(path)


if __name__ == "__main__":
    main()
