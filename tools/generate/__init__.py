"""Generates the files that follow from the definitions of `schemas/`: `make generate`.

    schemas/<name>.v1.schema.json       JSON Schema of a message
    sql/generated/queues                the table that reads the topics of events
    sql/generated/materialized_views    a materialized view for each kind of event
    sql/generated/parsing               the checks of all events and samples
    sql/generated/retention.sql         how long ClickHouse keeps events and records

The SQL is in `templates`. schemas/README.md describes the definitions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import jinja2

from stunwatch import schema
from stunwatch.definitions import SCHEMAS, definitions, events
from tools.generate.checks import STEP, checks_of
from tools.generate.columns import columns
from tools.generate.json_schema import numbers_of, text_of

GENERATED: Final = schema.SQL / schema.GENERATED


def texts() -> dict[Path, str]:
    """Every generated file: its path and its text."""
    made = {
        SCHEMAS / f"{each.message}.schema.json": text_of(each) for each in definitions().values()
    }
    kinds = events().values()
    for each in kinds:
        path = GENERATED / "materialized_views" / f"{each.view}_mv.sql"
        made[path] = _filled("materialized_view", event=each, columns=columns(each))
    return made | {
        GENERATED / "queues" / "events_queue.sql": _filled("queue", topics=[*events()]),
        GENERATED / "parsing" / "events_mv.sql": _filled(
            "events", step=STEP, **vars(checks_of(kinds))
        ),
        GENERATED / "parsing" / "samples_mv.sql": _filled(
            "samples",
            measures=[*numbers_of("esxtop_sample")],
            most_devices=definitions()["esxtop_row"].fields["devices"]["most_length"],
        ),
        GENERATED / "retention.sql": _filled("retention", definitions=definitions().values()),
    }


def present() -> set[Path]:
    """The generated files that exist."""
    return {*SCHEMAS.glob("*.schema.json"), *GENERATED.rglob("*.sql")}


def write() -> list[Path]:
    """Write what differs, delete what no definition makes, and return the paths of both."""
    made = texts()
    before = present()
    changed = before - made.keys()
    for path in changed:
        path.unlink()
    for path, text in made.items():
        if path not in before or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            changed.add(path)
    return sorted(changed)


def _text(value: str) -> str:
    """The value as a string of SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_TEMPLATES: Final = jinja2.Environment(  # noqa: S701 (SQL of our own definitions)
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.filters["text"] = _text


def _filled(template: str, **values: Any) -> str:
    return _TEMPLATES.get_template(f"{template}.sql.jinja").render(values)
