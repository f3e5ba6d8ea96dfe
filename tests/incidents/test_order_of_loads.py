"""Bundles and inventory give the same incidents in the end, in whatever order they are loaded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.engine.failures import Failure
from stunwatch.incidents.configuration import HOUR_US
from stunwatch.incidents.correlator import INVENTORY_TOPIC, SEEN_TOPIC
from stunwatch.incidents.signals import microseconds
from stunwatch.incidents_of_history import changes
from tests.incidents.scenario import CASES, Fed, cases, events, load

ORDERS = 10
DAY_US = 24 * HOUR_US

Span = tuple[int, int]


class Stored:
    """What ClickHouse has: events, and the newest row of each incident."""

    def __init__(self) -> None:
        self.events: list[Fed] = []
        self.incidents: dict[str, dict[str, Any]] = {}
        self.spans: list[Span] = []

    def load(self, bundle: list[Fed], number: int) -> None:
        """Load a bundle, or an inventory, and compute the incidents of its time."""
        self.events += bundle
        if any(topic != INVENTORY_TOPIC for topic, _ in bundle):
            self.spans.append(span_of(bundle))
            self.judge(f"run {number}", self.spans[-1])
        elif self.spans:
            firsts, lasts = zip(*self.spans, strict=True)
            self.judge(f"run {number}", (min(firsts), max(lasts)))

    def judge(self, run_id: str, span: Span) -> None:
        failures: list[Failure] = []
        known = [(INCIDENTS_TOPIC, dict(row)) for row in self.incidents.values()]
        fed = [*self.events, *known]
        rows = [row for row in self.incidents.values() if not row["is_deleted"]]
        opened = [microseconds(row["opened_at"]) for row in rows if row["state"] == "open"]
        span = min(span[0], *opened, span[0]), span[1]
        random.Random(run_id).shuffle(fed)
        for row in changes(fed, run_id, span, failures):
            before = self.incidents.get(row["event_id"])
            if before is None or row["revision"] >= before["revision"]:
                self.incidents[row["event_id"]] = row
        assert not failures

    @property
    def shown(self) -> dict[str, dict[str, Any]]:
        hidden = {"revision", "run_id"}
        return {
            name: {field: value for field, value in row.items() if field not in hidden}
            for name, row in self.incidents.items()
            if not row["is_deleted"]
        }


def span_of(bundle: list[Fed]) -> Span:
    times = list(times_of(bundle))
    return min(times), max(times)


def times_of(bundle: list[Fed]) -> Iterator[int]:
    for topic, event in bundle:
        if topic == SEEN_TOPIC:
            yield event["seen_us"]
        elif topic != INVENTORY_TOPIC:
            yield microseconds(event["started_at"])
            if event["ended_at"] is not None:
                yield microseconds(event["ended_at"])


def bundles_of(fed: list[Fed]) -> list[list[Fed]]:
    """Return the events of each host and day, and the inventory, each as a bundle."""
    found: dict[tuple[str, int], list[Fed]] = {}
    for topic, event in fed:
        name = "the inventory", 0
        if topic != INVENTORY_TOPIC:
            name = event["host"], min(times_of([(topic, event)])) // DAY_US
        found.setdefault(name, []).append((topic, event))
    return list(found.values())


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_the_order_of_loads_changes_no_incident(path: Path) -> None:
    bundles = bundles_of(events(load(path)))
    expected = None
    for seed in range(ORDERS):
        random.Random(seed).shuffle(bundles)
        stored = Stored()
        for number, bundle in enumerate(bundles):
            stored.load(bundle, number)
        expected = expected or stored.shown
        assert stored.shown == expected


def test_a_replay_changes_no_live_incident_that_is_open_and_keeps_others_live() -> None:
    case = load(CASES / "array_beside_a_storm.yaml")
    over = events({"events": ["esx1 seen 09:00:00"]})
    bundles = [*bundles_of(events(case)), over]
    stored = Stored()
    for number, bundle in enumerate(bundles):
        stored.load(bundle, number)
    true = dict(stored.incidents)
    for state, is_changed in (("open", False), ("closed", True)):
        wrong = {"run_id": "live", "state": state, "verdict": "another one", "revision": 1 << 62}
        stored.incidents = {name: row | wrong for name, row in true.items()}
        stored.judge("a replay", span_of([each for bundle in bundles for each in bundle]))
        for name, row in stored.incidents.items():
            assert row["run_id"] == "live"
            assert (row["verdict"] == true[name]["verdict"]) is is_changed


def test_a_replay_opens_a_closed_live_incident_only_if_it_shows_a_later_end() -> None:
    """The live job does not close an incident twice, so a wrong one would stay open."""
    case = load(CASES / "one_slow_lun.yaml")
    lun = "naa.60060e8000000000000000000000000a"
    stored = Stored()

    def replayed(number: int, *lines: str) -> tuple[str, str]:
        stored.load(events({"events": lines}), number)
        [row] = stored.incidents.values()
        return row["run_id"], row["state"]

    assert replayed(1, *(line for line in case["events"] if "seen" not in line))[1] == "open"
    [(name, row)] = stored.incidents.items()
    closed = {"run_id": "live", "state": "closed", "closed_at": "2026-03-02T02:30:00.000000Z"}
    stored.incidents = {name: row | closed}

    assert replayed(2, f"esx1 slow {lun} 02:11:00 02:29:00 300") == ("live", "closed")
    assert replayed(3, f"esx2 slow {lun} 02:20:00 02:35:00 300") == ("run 3", "open")
    assert replayed(4, "esx1 seen 03:00:00") == ("run 3", "closed")
