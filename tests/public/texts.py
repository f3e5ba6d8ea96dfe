"""Describe the public interface as texts, so that a difference shows what changed.

Each text is a file in `golden/`. It contains no names of modules or folders, and does not depend on
the date or the width of the terminal.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
from typer import rich_utils

from stunwatch.clickhouse import ClickHouse
from stunwatch.definitions import SCHEMAS
from stunwatch.detectors.catalogue import detectors
from stunwatch.engine.correlating import LIVE_EVERY_US
from stunwatch.investigations import investigations
from stunwatch.local.kafka import wanted_topics
from stunwatch.local.principals import rights
from stunwatch.settings import Settings, variable
from stunwatch.simulation.run import Scale, Simulation, write
from tests.cli.walked import WALKED
from tests.detectors import cases
from tests.incidents import scenario
from tests.pipeline import in_this_process
from tools.score import in_memory


def golden(name: str) -> Path:
    """Return the path of an accepted text."""
    return Path(__file__).parent / "golden" / f"{name}.txt"


NIGHT = Scale(hosts=4, vms=16, minutes=60, seed=23, name="frozen")

LONGEST_SHOWN = 120
"""Maximum characters of a value in a row. A longer value is shown as a digest."""

HELP_COLUMNS = 100

VALUES = dict.fromkeys(("String", "DateTime", "DateTime64"), "2024-03-10 06:00:00")
"""Type of a parameter → its value. Numbers are 1."""

NO_SCOPES = base64.b64encode(b"[]").decode()
"""The value of the parameter `scopes` of change_effects_in."""

_VIEWS = (
    *("stuns", "snapshot_operations", "reservation_conflicts", "latency_episodes", "unmap_runs"),
    *("scsi_errors", "path_events", "quality_events", "inventory", "incidents"),
)
"""The order of the views in the text of a night. New ones come last."""

_PARAMETER = re.compile(r"\{(\w+):(\w+)[^}]*\}")


# -- ClickHouse


def views(admin: ClickHouse) -> str:
    """Describe every view: parameters, comment, and name, type and comment of each column."""
    blocks = []
    for name, comment, query in admin.rows(
        "SELECT name, comment, create_table_query FROM system.tables"
        " WHERE database = 'stunwatch' AND engine = 'View' ORDER BY name"
    ):
        taken = dict(_PARAMETER.findall(query))
        given = ", ".join(f"{each} = '{value}'" for each, value in _values(taken).items())
        # ClickHouse can describe a view without parameters; others need a query.
        described = f"(SELECT * FROM {name}({given}))" if given else name
        head = " ".join([name, *(f"{{{each}:{taken[each]}}}" for each in sorted(taken)), comment])
        blocks.append(_block(head.rstrip(), _columns(admin, described, {})))
    return "\n".join(blocks)


def queries(reader: ClickHouse) -> str:
    """Describe every query of `stunwatch sql`: its parameters and columns."""
    blocks = []
    for _, each in sorted(investigations().items()):
        taken = {name: each.types.get(name, "String") for name in each.defaults}
        head = f"{each.name}: {each.question}"
        parameters = [
            f"--param {name}={'…' if default is None else default} {taken[name]}:"
            f" {each.meanings[name]}"
            for name, default in each.defaults.items()
        ]
        given = {name: value for name, value in each.defaults.items() if value is not None}
        columns = _columns(reader, f"({each.query})", _values(taken) | given)
        blocks.append(_block(head, [*parameters, *columns]))
    return "\n".join(blocks)


def _values(taken: Mapping[str, str]) -> dict[str, str]:
    return {
        name: NO_SCOPES if name == "scopes" else VALUES.get(taken[name], "1")
        for name in sorted(taken)
    }


def _columns(clickhouse: ClickHouse, described: str, given: Mapping[str, str]) -> Iterator[str]:
    for name, kind, _, _, comment, *_ in clickhouse.rows(f"DESCRIBE {described}", given):
        # ClickHouse writes the type of a tuple in several lines.
        flat = " ".join(kind.split()).replace("( ", "(")
        yield f"{name}  {flat}  {comment}".rstrip()


# -- Kafka


def topics() -> str:
    """Describe every topic: partitions, settings, and users who may read, write or describe it."""
    blocks = []
    for topic, wanted in sorted(wanted_topics().items()):
        may: dict[str, set[str]] = {}
        for kind, name, is_prefix, principal, operation in rights():
            if kind == "topic" and (topic.startswith(name) if is_prefix else topic == name):
                may.setdefault(operation, set()).add(principal)
        lines = [
            f"partitions={wanted['partitions']}",
            *(f"{name}={value}" for name, value in sorted(wanted["config"].items())),
            *(f"{each.lower()}: {', '.join(sorted(who))}" for each, who in sorted(may.items())),
        ]
        blocks.append(_block(topic, lines))
    groups = sorted(
        f"{name}{'*' if is_prefix else ''} {operation.lower()}: {principal}"
        for kind, name, is_prefix, principal, operation in rights()
        if kind == "group"
    )
    return "\n".join([*blocks, _block("consumer groups", groups)])


def messages() -> str:
    """Describe every kind of message: its fields in order, each with its JSON Schema."""
    blocks = []
    for path in sorted(SCHEMAS.glob("*.schema.json")):
        schema = orjson.loads(path.read_bytes())
        properties = schema.pop("properties")
        required = set(schema.pop("required"))
        lines = [
            *(f"({name}) {_json(value)}" for name, value in sorted(schema.items())),
            *(
                f"{name} {'required' if name in required else 'optional'} {_json(value)}"
                for name, value in properties.items()
            ),
        ]
        blocks.append(_block(path.name.removesuffix(".schema.json"), lines))
    return "\n".join(blocks)


# -- Command line


def help_texts() -> str:
    """Return the `--help` text of every command, in a terminal of HELP_COLUMNS without colours."""
    shown = []
    with (
        patch.object(rich_utils, "MAX_WIDTH", HELP_COLUMNS),
        patch.object(rich_utils, "FORCE_TERMINAL", False),
        patch.object(rich_utils, "COLOR_SYSTEM", None),
    ):
        for path in ["", *WALKED]:
            words = [*path.split(), "--help"]
            text = in_this_process(words, {}).stdout
            lines = "\n".join(each.rstrip() for each in text.strip("\n").splitlines())
            shown.append(f"$ stunwatch {' '.join(words)}\n{lines}\n")
    return "\n".join(shown)


def settings() -> str:
    """Describe every environment variable with its default, except paths."""
    return "".join(
        f"{variable(each.name)}={'(path)' if isinstance(each.default, Path) else each.default}\n"
        for each in fields(Settings)
    )


# -- Events and incidents


def rows_of_cases() -> str:
    """Return one line per final row of the cases of detectors and incidents, with a digest.

    The rows of detectors are in the `expected.jsonl` of their cases.
    """
    rows: list[dict[str, Any]] = []
    for detector in detectors():
        for case in cases.cases_of(detector):
            records = cases.records_of(case / "input.log", detector.owner)
            rows += cases.final_rows(cases.run(detector, records))
        for join in cases.joins_of(detector):
            records = chain(*cases.records_by_owner(join).values())
            rows += cases.final_rows(cases.run_joined(records))
    for path in scenario.cases():
        written = scenario.load(path)
        fed = sorted(scenario.events(written), key=scenario.known_us)
        rows += map(asdict, scenario.final_rows(fed, written["until"], LIVE_EVERY_US))
    return "".join(
        sorted(
            f"{row['detector']} {_started_at(row)} {row['event_id']} {_digest(row)}\n"
            for row in rows
        )
    )


def night() -> str:
    """Return the digest of the logs of a simulated night, and every event and incident in them."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        write(Simulation(NIGHT), folder)
        logs = sorted(each for each in folder.rglob("*") if each.is_file())
        digest = _digest({str(each.relative_to(folder)): _hash(each.read_bytes()) for each in logs})
        found = in_memory.find(folder)
    blocks = [
        _block(
            f"{len(logs)} files, {found.lines} lines, {found.rejected} of them rejected", [digest]
        )
    ]
    for view in (*_VIEWS, *(each for each in found.rows if each not in _VIEWS)):
        ordered = sorted(found.rows[view], key=lambda row: (_started_at(row), row["event_id"]))
        blocks.append(_block(view, (_json(_shortened(row)) for row in ordered)))
    return "\n".join(blocks)


def _started_at(row: Mapping[str, Any]) -> str:
    return next(
        str(row[name]) for name in ("started_at", "opened_at", "observed_at", "at") if row.get(name)
    )


def _shortened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row without its run, with digests instead of long values."""
    return {
        name: value if len(_json(value)) <= LONGEST_SHOWN else f"digest {_digest(value)}"
        for name, value in row.items()
        if name != "run_id"
    }


# -- Texts


def _block(head: str, lines: Iterable[str]) -> str:
    return "".join([f"{head}\n", *(f"    {each}\n" for each in lines)])


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _digest(value: Any) -> str:
    if isinstance(value, Mapping):
        value = {name: each for name, each in value.items() if name != "run_id"}
    return _hash(_json(value).encode())


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


MADE: dict[str, Callable[[], str]] = {
    "topics": topics,
    "messages": messages,
    "help": help_texts,
    "settings": settings,
    "cases": rows_of_cases,
    "night": night,
}
"""Name of the file → function for a text that needs no component."""

MADE_BY_CLICKHOUSE: dict[str, Callable[[ClickHouse], str]] = {"views": views, "queries": queries}
"""Name of the file → function for a text that needs a ClickHouse client."""
