"""Write the pages that are made of the folders: `make docs`; read the difference before committing.

The views' types are asked of a ClickHouse that is started for it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from stunwatch.clickhouse import ClickHouse
from stunwatch.documentation import Columns, pages
from stunwatch.schema import SQL
from tests.investigations.server import running


def columns_of(reader: ClickHouse) -> Columns:
    """Every view of the contract, and its columns in their order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path in sorted((SQL / "views").glob("*.sql")):
        rows = reader.rows(
            "SELECT name, type FROM system.columns"
            " WHERE database = 'stunwatch' AND table = {view:String} ORDER BY position",
            {"view": path.stem},
        )
        found[path.stem] = [(name, kind) for name, kind in rows]
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
