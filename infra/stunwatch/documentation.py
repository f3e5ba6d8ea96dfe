"""The pages of `docs/` that are made of the folders: `make docs` writes them.

    docs/detectors/<name>.md    a detector, from its folder
    docs/detectors/README.md    all of them
    docs/data.md                what travels and what is asked, from schemas/ and sql/views/
    docs/scaling.md             its tables alone, from scaling.yaml; the words are written by hand

tests/documentation/accept.py is that command: the types of views are ClickHouse's own.

Nothing here touches a file or the network but to read the project's own.
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

from detectors.catalogue import Detector, detectors
from stunwatch import scaling
from stunwatch.scaling import Row, Table
from stunwatch.schema import SQL
from stunwatch.settings import ROOT

DOCS = ROOT / "docs"
SCHEMAS = ROOT / "schemas"

Columns = Mapping[str, list[tuple[str, str]]]
"""View → its columns: name and ClickHouse type."""

FED_BY = {
    "latency_episodes": "latency_episode.v1",
    "latency_samples": "esxtop_sample.v1",
    "log_lines_with": "log_line.v1",
}
"""Views whose schema is not called as one of their rows: stuns are stun.v1."""

_PATTERN = re.compile(r"^  # (?P<line>.+)\n  (?P<name>\w+): ", re.MULTILINE)
_THRESHOLD = re.compile(r"^(?P<said>(?:  # .+\n)*)  (?P<name>\w+): (?P<value>\d+)$", re.MULTILINE)
_FILLED = "<!-- made by make docs: {} -->\n"
_END = "<!-- end -->"


def pages(columns: Columns) -> dict[Path, str]:
    """Every page that is made, whole, by its path."""
    made = {DOCS / "detectors" / f"{each.name}.md": detector_page(each) for each in detectors()}
    made[DOCS / "detectors" / "README.md"] = detectors_index(detectors())
    made[DOCS / "data.md"] = data_page(columns)
    sizes = DOCS / "scaling.md"
    made[sizes] = fill(sizes.read_text(), scaling.tables())
    return made


def detector_page(detector: Detector) -> str:
    """A detector's README, and below it its thresholds, the lines it knows and its cases."""
    folder = detector.folder.relative_to(ROOT)
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
            *_section("Thresholds", ("name", "value", "why"), rows),
            "## The lines it knows",
            "",
            *(line for found in patterns for line in (f"`{found[1]}`", "", _code(found[0]), "")),
            "## What tests hold it to",
            "",
            "Each case is a log and the events that must come of it:",
            "",
            *(f"- {name.replace('_', ' ')}" for name in _cases(detector)),
            "",
        ]
    )


def detectors_index(all_of_them: Iterable[Detector]) -> str:
    """One line a detector."""
    rows: list[Row] = [
        (f"[{each.name}]({each.name}.md)", each.what, f"`{each.topic}`") for each in all_of_them
    ]
    return "\n".join(
        [
            _made_of("flink-jobs/detectors"),
            "# Detectors",
            "",
            "What each looks for, what to do when it fires, what it cannot see.",
            "",
            *_table(("detector", "finds", "writes"), rows),
            "",
        ]
    )


def data_page(columns: Columns) -> str:
    """The contract: views with their columns, then messages with their fields."""
    schemas = _schemas()
    parts = [
        _made_of("sql/views and schemas"),
        "# Data",
        "",
        "What may be relied on: the views of the database `stunwatch`, and the messages in Kafka.",
        "Tables behind the views may change. All times are UTC.",
        "",
        "## Views",
        "",
    ]
    for view, named in sorted(columns.items()):
        fields = schemas.get(_schema_of(view), {}).get("properties", {})
        columned: list[Row] = [
            (f"`{name}`", f"`{kind}`", _meaning(view, name, fields)) for name, kind in named
        ]
        parts += [f"### {view}", "", view_comment(view), ""]
        parts += [*_table(("column", "type", "what it is"), columned), ""]
    parts += ["## Messages", "", "One JSON object a message; what is unknown is absent.", ""]
    for name, schema in schemas.items():
        topics = ", ".join(f"`{each}`" for each in schema["x-topics"])
        required = set(schema["required"])
        fielded: list[Row] = [
            (f"`{field}`", _json_type(each), "yes" if field in required else "", meaning)
            for field, each in schema["properties"].items()
            for meaning in [_meaning(name, field, schema["properties"])]
        ]
        parts += [f"### {name}", "", f"{schema['description']} Topics: {topics}.", ""]
        parts += [*_table(("field", "type", "always there", "what it is"), fielded), ""]
    return "\n".join(parts)


def view_comment(view: str) -> str:
    """What stands above a view: what one row is."""
    text = (SQL / "views" / f"{view}.sql").read_text()
    said = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        words = line.removeprefix("--")
        # Deeper than a sentence's single space: SQL to copy.
        said.append(f"`{words.strip()}`" if words.startswith("   ") else words.strip())
    return "\n".join(said)


def fill(page: str, tables: Mapping[str, Table]) -> str:
    """A page with each table put between its two marks. Raises ValueError where one is missing."""
    for name, (header, rows) in tables.items():
        before, mark, rest = page.partition(_FILLED.format(name))
        _, end, after = rest.partition(_END)
        if not mark or not end:
            raise ValueError(f"the page has no place for the table {name}")
        page = f"{before}{mark}\n" + "\n".join(_table(header, rows)) + f"\n\n{end}{after}"
    return page


def _made_of(what: str) -> str:
    return f"<!-- Made by `make docs` from {what}: change it there. -->\n"


def _schema_of(view: str) -> str:
    return FED_BY.get(view, f"{view.removesuffix('s')}.v1")


@cache
def _schemas() -> dict[str, Any]:
    return {
        path.name.removesuffix(".schema.json"): json.loads(path.read_text())
        for path in sorted(SCHEMAS.glob("*.schema.json"))
    }


@cache
def _meanings() -> dict[str, str]:
    """What is said of columns: documentation.yaml, then what all schemas that tell it agree on."""
    told: defaultdict[str, set[str]] = defaultdict(set)
    for schema in _schemas().values():
        for name, field in schema["properties"].items():
            if "description" in field:
                told[name].add(field["description"])
    agreed = {name: said.pop() for name, said in told.items() if len(said) == 1}
    ours: dict[str, str] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
    return agreed | ours


def _meaning(place: str, name: str, fields: Mapping[str, Any]) -> str:
    """What a column of a view or a field of a message is, and which values it takes."""
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
