"""The incidents of a time in the past, as replays and `triage` compute them."""

from __future__ import annotations

from typing import Any

import pytest

from stunwatch.engine.failures import Failure
from stunwatch.engine.history import HISTORY_EVERY_US, Fed, FleetHistory, final_incidents
from tests.incidents.scenario import CASES, events, final_rows, known_us, load, until_us

SCENARIOS = ("array_beside_a_storm", "nightly_backup", "trouble_that_comes_back")
BROKEN: list[Fed] = [("events.stun", {"event_id": "e", "revision": "x"}), ("seen", {"host": 7})]


def final(history: FleetHistory, fed: list[Fed], failures: list[Failure]) -> dict[str, Any]:
    rows = final_incidents(history, fed, failures)
    return {row["event_id"]: row["revision"] for row in rows if not row["is_deleted"]}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_order_of_events_does_not_change_the_final_rows(name: str) -> None:
    case = load(CASES / f"{name}.yaml")
    fed = events(case)
    expected = final_rows(sorted(fed, key=known_us), case["until"], HISTORY_EVERY_US)
    for given in (fed, fed[::-1], [*BROKEN, *fed]):
        failures: list[Failure] = []
        found = final(FleetHistory("case", 0, until_us(case)), given, failures)
        assert found == {row.event_id: row.revision for row in expected}
        assert not failures


def test_incidents_of_another_time_are_not_written() -> None:
    case = load(CASES / f"{SCENARIOS[0]}.yaml")
    fed = events(case)
    later_us = until_us(case) + 30 * 86_400_000_000
    assert not final(FleetHistory("case", later_us, later_us), fed, [])
    assert not final(FleetHistory("case", 0, 1), fed, [])


def test_an_error_drops_one_event_only(monkeypatch: pytest.MonkeyPatch) -> None:
    history, failures = FleetHistory("case", 0, 2**60), list[Failure]()

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(history._correlator, "feed", fail)
    seen: Fed = ("seen", {"host": "esx1", "seen_us": 5})
    assert not list(history.feed([seen], failures))
    assert [each.reason for each in failures] == ["detector incidents failed: ZeroDivisionError"]
