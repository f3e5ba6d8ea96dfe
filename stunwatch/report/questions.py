"""Runs the queries of `sql/queries/report/`. The page shows them with their values filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from stunwatch.clickhouse import ClickHouse
from stunwatch.schema import SQL, statements

Row = dict[str, Any]
"""A row by column name. Columns that end in `_at` are times."""

# {incident:UUID}, {from_at:DateTime64(6)}
_PARAMETER = re.compile(r"\{(?P<name>\w+):[^}]+\}")


@dataclass(frozen=True)
class Answer:
    """A question, its query as it was run, and the resulting rows."""

    name: str
    question: str
    sql: str
    rows: list[Row]

    @property
    def row(self) -> Row:
        """Return the row of a query that returns one row."""
        return self.rows[0]


def ask(reader: ClickHouse, name: str, values: Mapping[str, UUID | datetime | int]) -> Answer:
    """Run `sql/queries/report/<name>.sql`. Raises QueryError."""
    text = (SQL / "queries" / "report" / f"{name}.sql").read_text()
    sql = fill(statements(text)[0], values)
    rows = [_with_times(row) for row in reader.named_rows(sql)]
    return Answer(name, text.splitlines()[0].removeprefix("-- "), sql, rows)


def fill(sql: str, values: Mapping[str, UUID | datetime | int]) -> str:
    """Replace each parameter by a literal. The result can be put in double quotes in a shell."""
    return _PARAMETER.sub(lambda found: _literal(values[found["name"]]), sql)


def _literal(value: UUID | datetime | int) -> str:
    if isinstance(value, UUID):
        return f"toUUID('{value}')"
    if isinstance(value, datetime):
        return f"toDateTime64('{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}', 6, 'UTC')"
    return str(value)


def _with_times(row: Row) -> Row:
    return {
        name: datetime.fromisoformat(value).replace(tzinfo=UTC)
        if name.endswith("_at") and value
        else value
        for name, value in row.items()
    }
