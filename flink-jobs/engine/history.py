"""Events of the past become incidents: for replays and `triage`. Plain Python, no Flink."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeVar

import orjson

from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.engine.failures import CORRELATOR, Failure
from stunwatch.engine.owner import FACTS, Written
from stunwatch.incidents.configuration import KEEP_US
from stunwatch.incidents.correlator import (
    INVENTORY_TOPIC,
    SEEN_TOPIC,
    Correlator,
    Incident,
    is_same,
    superseded,
)
from stunwatch.incidents.seasonal_baseline import Hours
from stunwatch.incidents.signals import TOPICS, BrokenEventError, microseconds, reading, signal_of
from stunwatch.incidents.topology import Topology

Row = dict[str, Any]

Fed = tuple[str, Row]
"""A topic, and one event of it."""

FED_TOPICS = (*TOPICS, INVENTORY_TOPIC, SEEN_TOPIC)
"""The topics of a replay's own events from which its incidents are computed."""

HISTORY_EVERY_US = 900_000_000
"""History writes only final rows. It computes incidents in between only to forget old ones."""

_Sent = TypeVar("_Sent")


def sendable(
    told: Iterable[tuple[str, Written]],
    row_of: Callable[[str, Written], _Sent],
    failures: list[Failure],
    reset: Callable[[str, str], None],
    record: Mapping[str, Any] | None = None,
) -> Iterator[_Sent]:
    """Yield the rows of what trackers wrote, by log key.

    If a row cannot be serialised, that is a failure of its detector: it is appended to `failures`,
    and `reset` is called with the log key and the detector's name.
    """
    for owner, written in told:
        try:
            row = row_of(owner, written)
        except Exception as error:
            topic, event = written
            name = "migrations" if topic == FACTS else event.detector
            failures.append(Failure(name, error, record or {"owner": owner}))
            reset(owner, name)
        else:
            yield row


def seen(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event for SEEN_TOPIC: a host sent lines at this time."""
    return {"host": record["host"], "seen_us": record["event_time_us"]}


def known_us(topic: str, event: dict[str, Any]) -> int:
    """Return the event time by which history sorts; 0 for inventory, which applies from the start.

    Raise BrokenEventError if the event violates its schema.
    """
    if topic in (INVENTORY_TOPIC, INCIDENTS_TOPIC):
        return 0
    with reading():
        if topic == SEEN_TOPIC:
            return int(event["seen_us"])
        signal = signal_of(topic, event)
        return signal.known_us if signal else microseconds(event["started_at"])


class FleetHistory:
    """Computes the incidents of one replay from all events of that time, sorted by `known_us`.

    It writes incidents that overlap the replay's own time, from `first_us` to `last_us` (µs since
    1970). Incidents before and after were computed when their own lines arrived.
    """

    def __init__(self, run_id: str, first_us: int, last_us: int) -> None:
        self._run_id, self._first_us, self._last_us = run_id, first_us, last_us
        self._correlator = Correlator(run_id, HISTORY_EVERY_US)
        self._topology = Topology()
        self._bands: dict[str, Hours] = {}
        self._shipped: dict[str, dict[str, Any]] = {}
        self._found: dict[str, Incident] = {}

    def timed(self, fed: Iterable[Fed]) -> Iterator[tuple[int, Fed]]:
        """Yield the events that may belong to its incidents, each with its `known_us`.

        Events that violate their schema are left out: ClickHouse reads the same topics and stores
        them with the reason.
        """
        for each in fed:
            with suppress(BrokenEventError):
                # An event soon after the end may belong to an incident; a much later one does not.
                if (at_us := known_us(*each)) <= self._last_us + KEEP_US:
                    yield at_us, each

    def feed(self, instant: Iterable[Fed], failures: list[Failure]) -> Iterator[Incident]:
        """Yield the rows that follow from all events of one millisecond.

        They are sorted, so that their order does not matter. If an event causes an error, it is
        skipped and the error is appended to `failures`.
        """
        for topic, event in sorted(instant, key=_order):
            try:
                incidents = list(self._taken_in(topic, event))
            except BrokenEventError:
                # ClickHouse reads the same topic and stores the event with the reason.
                continue
            except Exception as error:
                shown = {"file": topic, "message": orjson.dumps(event).decode()}
                failures.append(Failure(CORRELATOR, error, shown))
                continue
            yield from filter(self._is_own, incidents)

    def end(self) -> Iterator[Incident | dict[str, Any]]:
        """Yield the rows due at the end: final rows, and corrections of older rows."""
        self._correlator.now_us = max(self._correlator.now_us, self._last_us)
        yield from filter(self._is_own, self._correlator.look(self._topology))
        true = [each for each in self._found.values() if not each.is_deleted]
        yield from superseded(self._shipped.values(), true, self._run_id)

    def _taken_in(self, topic: str, event: dict[str, Any]) -> Iterator[Incident]:
        if topic == INCIDENTS_TOPIC:
            with reading():
                told = {name: event[name] for name in Incident.__annotations__}
                told["revision"] = int(told["revision"])
            known = self._shipped.get(told["event_id"])
            if known is None or told["revision"] >= known["revision"]:
                self._shipped[told["event_id"]] = told
            return
        yield from self._correlator.feed(topic, event, self._bands, self._topology)

    def _is_own(self, incident: Incident) -> bool:
        """True if the incident overlaps the replay's time. If so, remember it."""
        began_us = microseconds(incident.opened_at)
        ended_us = microseconds(incident.closed_at) if incident.closed_at else self._last_us
        if began_us > self._last_us or ended_us < self._first_us:
            return False
        self._found[incident.event_id] = incident
        return True


def final_incidents(
    history: FleetHistory, fed: Iterable[Fed], failures: list[Failure]
) -> list[Row]:
    """Return the newest row of every incident that follows from these events, in any order."""
    best: dict[str, Row] = {}

    def take(row: Row) -> None:
        known = best.get(row["event_id"])
        if known is None or row["revision"] >= known["revision"]:
            best[row["event_id"]] = row

    for _, instant in groupby(sorted(history.timed(fed), key=_known_ms), key=_known_ms):
        for incident in history.feed([each for _, each in instant], failures):
            take(vars(incident))
    for last in history.end():
        take(vars(last) if isinstance(last, Incident) else last)
    return [dict(each) for each in best.values()]


def is_same_incident(row: Row, known: Row | None) -> bool:
    """True if a row was written before: nothing has changed, or only the run that found it."""
    if known is None:
        return bool(row["is_deleted"])
    return bool(row["revision"] <= known["revision"]) and is_same(row, known)


def _known_ms(timed: tuple[int, Fed]) -> int:
    return timed[0] // 1000


def _order(fed: Fed) -> tuple[str, str, str]:
    topic, event = fed
    return topic, str(event.get("event_id", event.get("host"))), f"{event.get('revision')!s:>20}"
