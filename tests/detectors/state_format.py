"""The contents of Flink's checkpoints: the classes of the pickled state, and samples of it.

The samples were written by the first version with this state format. Each is the state of one case
after half of its lines.
"""

from __future__ import annotations

import gzip
import io
import pickle
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from stunwatch.detectors.catalogue import detectors
from stunwatch.engine.correlating import LIVE_EVERY_US
from stunwatch.engine.owner import FACTS, Owner, epoch_microseconds
from stunwatch.incidents.correlator import Correlator
from stunwatch.incidents.seasonal_baseline import Hours
from stunwatch.incidents.topology import Topology
from stunwatch.jobs.options import STATE
from tests.detectors.cases import cases_of, records_of
from tests.incidents import scenario

FILE = Path(__file__).with_name("state_format.yaml")
SAMPLES = Path(__file__).with_name("state_samples.pickle.gz")

Classes = dict[str, str]
"""By full name of a class: its fields, in their order if a pickle depends on it."""


class _Classes(pickle.Pickler):
    """Collects the class of every object that it pickles."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self._ordered: dict[str, str] = {}
        self._unordered: dict[str, set[str]] = {}

    def look(self, state: object) -> None:
        """Add the classes of this state."""
        self.clear_memo()
        self.dump(state)

    def reducer_override(self, each: Any) -> Any:
        if not isinstance(each, type) and type(each).__module__.startswith("stunwatch."):
            name = f"{type(each).__module__}.{type(each).__qualname__}"
            if is_dataclass(each):
                self._ordered[name] = " ".join(field.name for field in fields(each))
            elif isinstance(each, tuple):
                self._ordered[name] = " ".join(each._fields)  # type: ignore[attr-defined]
            else:
                self._unordered.setdefault(name, set()).update(vars(each))
        return NotImplemented

    def found(self) -> Classes:
        """Return the classes so far, sorted by name."""
        unordered = {name: " ".join(sorted(each)) for name, each in self._unordered.items()}
        return dict(sorted((self._ordered | unordered).items()))


def machines(owner: Owner) -> list[object]:
    """Return the trackers and the facts of a log key, which it keeps as bytes."""
    kept = [*owner._trackers.values(), *owner._facts.values()]
    return [each.used() for each in kept]


def classes() -> Classes:
    """Return the classes of the state after each record of all cases."""
    seen = _Classes()
    for detector in detectors():
        for case in cases_of(detector):
            owner, shared = Owner(), Owner()
            for record in records_of(case / "input.log", detector.owner):
                for topic, event in owner.feed({**record, "owner": "case"}):
                    if topic == FACTS:
                        at_us = epoch_microseconds(event["event_time"])
                        list(shared.feed({**event, "event_time_us": at_us}))
                seen.look([machines(each) for each in (owner, shared)])
    for path in scenario.cases():
        correlator, bands, topology = (
            Correlator("case", LIVE_EVERY_US),
            dict[str, Hours](),
            Topology(),
        )
        for topic, event in sorted(scenario.events(scenario.load(path)), key=scenario.known_us):
            list(correlator.feed(topic, event, bands, topology))
        seen.look((correlator, bands, topology))
    return seen.found()


def samples() -> dict[str, bytes]:
    """Return the pickled state after half of each case's lines, by the case's name."""
    found = {}
    for detector in detectors():
        for case in cases_of(detector):
            if detector.owner in ("vm", "host"):
                records = list(records_of(case / "input.log", detector.owner))
                owner = Owner()
                for record in records[: len(records) // 2]:
                    list(owner.feed({**record, "owner": "case"}))
                found[f"{detector.name}/{case.name}"] = pickle.dumps(owner)
    return found


def kept_samples() -> tuple[int, dict[str, bytes]]:
    """Return the number of the state format, and the samples that are in SAMPLES."""
    number, found = pickle.loads(gzip.decompress(SAMPLES.read_bytes()))
    return number, found


def accepted() -> tuple[int, Classes]:
    """Return the number of the state format, and the classes that it has."""
    content = yaml.safe_load(FILE.read_text())
    return content["format"], content["classes"]


def unreadable(before: Classes, now: Classes) -> list[str]:
    """Return the classes that are gone or have other fields. A new class is no problem."""
    return [name for name in before if before[name] != now.get(name)]


def accept() -> None:
    """Rewrite the file. Raises SystemExit if classes changed under the same number."""
    now = classes()
    number, before = accepted() if FILE.exists() else (0, {})
    if number == STATE and (names := unreadable(before, now)):
        raise SystemExit(f"Raise STATE in flink-jobs/jobs/options.py: {', '.join(names)}.")
    content = yaml.safe_dump({"format": STATE, "classes": now}, sort_keys=False, width=1000)
    if not SAMPLES.exists() or kept_samples()[0] != STATE:
        SAMPLES.write_bytes(gzip.compress(pickle.dumps((STATE, samples())), mtime=0))
    FILE.write_text(f"---\n# Written by `python -m tests.detectors.accept`.\n{content}")
