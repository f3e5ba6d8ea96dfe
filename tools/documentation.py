"""Generates pages of `docs/`; `make docs` writes them.

    docs/detectors/<name>.md    a detector, from its folder
    docs/detectors/README.md    all detectors
    docs/data.md                messages and views, from schemas/ and sql/views/

The command is tests/documentation/accept.py, because the types of views come from ClickHouse. This
module only reads files of the project.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from stunwatch.definitions import FOR_EVER, SCHEMAS, Definition, definitions
from stunwatch.detectors.catalogue import Detector, detectors
from stunwatch.schema import SQL
from stunwatch.settings import ROOT

DOCS = ROOT / "docs"

Row = tuple[str, ...]

Columns = Mapping[str, list[tuple[str, str]]]
"""View → its columns, with name and ClickHouse type."""

_PATTERN = re.compile(r"^  # (?P<line>.+)\n  (?P<name>\w+): ", re.MULTILINE)
_THRESHOLD = re.compile(
    r"^(?P<said>(?:  # .+\n)*)  (?P<name>\w+): (?P<value>\d{1,19})$", re.MULTILINE
)


def pages(columns: Columns) -> dict[Path, str]:
    """Return every generated page by its path."""
    made = {DOCS / "detectors" / f"{each.name}.md": detector_page(each) for each in detectors()}
    made[DOCS / "detectors" / "README.md"] = detectors_index(detectors())
    made[DOCS / "data.md"] = data_page(columns)
    return made


def detector_page(detector: Detector) -> str:
    """Return a detector's README with its thresholds, example lines and test cases."""
    folder = detector.folder.resolve().relative_to(ROOT)  # `stunwatch` holds a link to it
    title, _, body = (detector.folder / "README.md").read_text().partition("\n")
    settings = (detector.folder / "detector.yaml").read_text()
    _, _, thresholds = settings.partition("\nthresholds:\n")
    rows: list[Row] = [
        (f"`{each['name']}`", each["value"], " ".join(each["said"].replace("#", "").split()))
        for each in _THRESHOLD.finditer(thresholds)
    ]
    patterns = [each for each in _PATTERN.findall(settings) if each[1] in detector.patterns]
    return "\n".join(
        [
            _made_of(str(folder)),
            title,
            "",
            f"Reads the log of a {detector.owner}, writes `{detector.topic}`."
            f" Its folder: [{folder}](../../{folder}).",
            body.rstrip(),
            "",
            *_section("Thresholds", ("name", "value", "reason"), rows),
            "## Lines",
            "",
            *(line for found in patterns for line in (f"`{found[1]}`", "", _code(found[0]), "")),
            "## Test cases",
            "",
            "Each case is a log and the expected events:",
            "",
            *(f"- {name.replace('_', ' ')}" for name in _cases(detector)),
            "",
        ]
    )


def detectors_index(all_of_them: Iterable[Detector]) -> str:
    """Return a page with one line per detector."""
    rows: list[Row] = [
        (f"[{each.name}]({each.name}.md)", each.what, f"`{each.topic}`") for each in all_of_them
    ]
    return "\n".join(
        [
            _made_of("flink-jobs/detectors"),
            "# Detectors",
            "",
            "What each detector finds, what to do about it, and its limits.",
            "",
            *_table(("detector", "finds", "writes"), rows),
            "",
        ]
    )


def data_page(columns: Columns) -> str:
    """Return the data reference: views with their columns, then messages with their fields."""
    schemas = _schemas()
    parts = [
        _made_of("sql/views and schemas"),
        "# Data",
        "",
        "The stable interface: the views of the database `stunwatch`, and the messages in Kafka.",
        "Tables behind the views may change. All times are UTC.",
        "",
        "## Views",
        "",
    ]
    for view, named in sorted(columns.items()):
        fields = _schema_of_views().get(view, {}).get("properties", {})
        columned: list[Row] = [
            (f"`{name}`", f"`{kind}`", _meaning(view, name, fields)) for name, kind in named
        ]
        parts += [f"### `{view}`", "", view_comment(view), ""]
        parts += [*_table(("column", "type", "description"), columned), ""]
    parts += ["## Messages", "", "Each message is one JSON object; unknown fields are absent.", ""]
    for kind in sorted(definitions().values(), key=lambda each: each.message):
        name, schema = kind.message, schemas[kind.message]
        topics = ", ".join(f"`{each}`" for each in kind.topics)
        required = set(schema["required"])
        fielded: list[Row] = [
            (f"`{field}`", _json_type(each), "yes" if field in required else "", meaning)
            for field, each in schema["properties"].items()
            for meaning in [_meaning(name, field, schema["properties"])]
        ]
        parts += [f"### `{name}`", "", f"{kind.meaning} Topics: {topics}.", "", _kept(kind), ""]
        if kind.is_event:
            identity = (f"- `{each}`: {what}" for each, what in kind.identity.items())
            parts += ["The `event_id` is made of, for each value of `detector`:", "", *identity, ""]
        parts += [*_table(("field", "type", "required", "description"), fielded), ""]
    return "\n".join(parts)


def _kept(kind: Definition) -> str:
    stored = f"ClickHouse keeps a row for {kind.kept} after `{kind.kept_by}`"
    if not kind.is_event:
        return f"{stored}."
    in_kafka = kind.kept_in_kafka if kind.kept_in_kafka == FOR_EVER else f"for {kind.kept_in_kafka}"
    return f"{stored}, Kafka a message {in_kafka}."


def view_comment(view: str) -> str:
    """Return the comment above a view, which describes a row."""
    text = (SQL / "views" / f"{view}.sql").read_text()
    said = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        words = line.removeprefix("--")
        # An indented line is an SQL example.
        said.append(f"`{words.strip()}`" if words.startswith("   ") else words.strip())
    return "\n".join(said)


def _made_of(what: str) -> str:
    return f"<!-- Made by `make docs` from {what}: change it there. -->\n"


@cache
def _schema_of_views() -> dict[str, Any]:
    """View → the schema of the messages that fill its table."""
    found = {each.view: _schemas()[each.message] for each in definitions().values()}
    # A row of `inventory` is calculated from several items.
    del found["inventory"]
    return {**found, "log_lines_with": found["log_lines"]}


@cache
def _schemas() -> dict[str, Any]:
    return {
        path.name.removesuffix(".schema.json"): json.loads(path.read_text())
        for path in sorted(SCHEMAS.glob("*.schema.json"))
    }


@cache
def _meanings() -> dict[str, str]:
    """Return descriptions of columns: of documentation.yaml, or equal ones of all schemas."""
    told: defaultdict[str, set[str]] = defaultdict(set)
    for schema in _schemas().values():
        for name, field in schema["properties"].items():
            if "description" in field:
                told[name].add(field["description"])
    agreed = {name: said.pop() for name, said in told.items() if len(said) == 1}
    ours: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return agreed | ours


def _meaning(place: str, name: str, fields: Mapping[str, Any]) -> str:
    """Return the description of a column or field, and its values."""
    field = fields.get(name, {})
    known = _meanings()
    said = field.get("description") or known.get(f"{place}.{name}") or known.get(name, "")
    values = [each for each in field.get("enum", []) if isinstance(each, str)]
    listed = ", ".join(f"`{each}`" for each in values if f"`{each}`" not in said)
    return " ".join(filter(None, (said, f"One of: {listed}." if listed else "")))


def _json_type(field: Mapping[str, Any]) -> str:
    if "const" in field:
        return json.dumps(field["const"])
    kind = field.get("type", "string" if "enum" in field else "")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _cases(detector: Detector) -> list[str]:
    cases = [*detector.folder.glob("cases/*/input.log"), *detector.folder.glob("joins/*/host.log")]
    return sorted(path.parent.name for path in cases)


def _section(title: str, header: Row, rows: list[Row]) -> list[str]:
    return [f"## {title}", "", *_table(header, rows), ""] if rows else []


def _table(header: Row, rows: Iterable[Row]) -> list[str]:
    lines = (header, tuple("---" for _ in header), *rows)
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines]


def _code(line: str) -> str:
    return f"    {line}"
