"""The definitions of events and records: `schemas/<name>.yaml`, one file for each kind.

schemas/README.md describes the keys of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from stunwatch.folders import ROOT
from stunwatch.ingest import yaml_file

SCHEMAS: Final = ROOT / "schemas"
COMMON: Final = SCHEMAS / "common.yaml"
FOR_EVER: Final = "for ever"

_DAY_MS: Final = 24 * 60 * 60 * 1000

Field = Mapping[str, Any]
"""A field's keys, such as `type`, `optional` and `meaning`."""


@dataclass(frozen=True)
class Definition:
    """One kind of event or record."""

    name: str
    """The name of the file: stun."""
    version: int
    meaning: str
    topics: tuple[str, ...]
    """An event has one topic. Records of several shippers have several."""
    table: str
    kept: str
    """How long ClickHouse keeps a row: `5 years`."""
    kept_by: str
    """The column of the table with the start of this time."""
    fields: Mapping[str, Field]
    """In the order of the message; those of schemas/common.yaml first."""
    own_fields: Mapping[str, Field]
    """The fields without those of schemas/common.yaml."""
    identity: Mapping[str, str]
    """Of an event: detector → what its event_id is made of."""
    written_by: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()
    kept_in_kafka: str = ""
    """Of an event: `35 days`, or FOR_EVER."""

    @property
    def is_event(self) -> bool:
        """Whether a detector or a collector made it. Records come from shippers."""
        return bool(self.identity)

    @property
    def message(self) -> str:
        """The name of its JSON Schema and of its samples: stun.v1."""
        return f"{self.name}.v{self.version}"

    @property
    def view(self) -> str:
        """The view that shows the table."""
        return self.table.removesuffix("_stored")

    @property
    def interval(self) -> str:
        """`kept` as ClickHouse writes it: 5 YEAR."""
        return self.kept.upper().removesuffix("S")

    @property
    def kafka_ms(self) -> int:
        """`kept_in_kafka` in milliseconds; -1 for ever, as Kafka writes it."""
        if self.kept_in_kafka == FOR_EVER:
            return -1
        return int(self.kept_in_kafka.removesuffix(" days")) * _DAY_MS


@cache
def definitions() -> Mapping[str, Definition]:
    """Every definition by its name."""
    return {
        path.stem: _definition(path.stem, _read(path))
        for path in sorted(SCHEMAS.glob("*.yaml"))
        if path != COMMON
    }


@cache
def events() -> Mapping[str, Definition]:
    """The definitions of events by topic, in the order of the topics."""
    found = {each.topics[0]: each for each in definitions().values() if each.is_event}
    return dict(sorted(found.items()))


def _definition(name: str, said: dict[str, Any]) -> Definition:
    own = said.pop("fields")
    topics = said.pop("topics", None) or [said.pop("topic")]
    changed = said.pop("common", {})
    common: dict[str, Field] = {}
    if "identity" in said:
        common = {each: keys | changed.get(each, {}) for each, keys in _common().items()}
        common["detector"] = {**common["detector"], "values": [*said["identity"]]}
    return Definition(
        name=name,
        topics=tuple(topics),
        fields=common | own,
        own_fields=own,
        identity=said.pop("identity", {}),
        written_by=tuple(said.pop("written_by", ())),
        read_by=tuple(said.pop("read_by", ())),
        **said,
    )


@cache
def _common() -> dict[str, dict[str, Any]]:
    return _read(COMMON)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml_file.read(path)
    return found
