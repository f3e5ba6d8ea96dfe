"""Write the pages that are made of the folders: `make docs`; read the difference before committing.

The views' types are asked of a ClickHouse that is started for it.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from stunwatch.clickhouse import ClickHouse
from stunwatch.documentation import Columns, pages
from stunwatch.schema import SQL
from tests.investigations.server import running

# SELECT * FROM log_lines_with(words = 'lost access'), above a view that takes parameters
_EXAMPLE = re.compile(r"^-- +SELECT \* FROM (\w+\(.+\))$", re.MULTILINE)


def columns_of(reader: ClickHouse) -> Columns:
    """Every view of the contract, and its columns in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((SQL / "views").glob("*.sql")):
        example = _EXAMPLE.search(path.read_text())
        asked = example[1] if example else path.stem
        rows = reader.rows(f"DESCRIBE (SELECT * FROM {asked})")
        # A tuple's type comes as several lines.
        found[path.stem] = [
            (name, " ".join(kind.split()).replace("( ", "(")) for name, kind, *_ in rows
        ]
    return found


def main() -> None:
    """Rewrite every page that differs, and name it."""
    with tempfile.TemporaryDirectory() as home, running(Path(home)) as server:
        made = pages(columns_of(server.reader))
    for path, text in made.items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            print(path)


if __name__ == "__main__":
    main()
