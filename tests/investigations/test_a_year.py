"""With a year of 1,000 VMs, investigations answer in a second: see `year/README.md`.

With a year of 20,000 VMs, they take up to five seconds. The test compares with a measuring query in
the same run, because other load on the machine slows down both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from stunwatch.investigations import investigations
from tests.clickhouse_server import Server, running
from tests.investigations.filling import NOW, YEAR, fill, merge_past_months

GIVEN = {"at": f"{NOW - timedelta(days=60):%Y-%m-%d} 12:00:00"}
"""Values of the required parameters."""

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

MEASURE = "SELECT sum(sipHash64(number)) FROM numbers_mt(30000000)"
"""The measuring query. It takes half a second on two idle cores."""

MEASURES = {1_000: 2, 20_000: 10}
"""VMs of the fleet → an answer may take as long as this number of measuring queries: on idle cores,
one second or five."""

TIMES_AS_LONG = {"before_and_after_change": 2, "what_is_missing": 0.3}
"""Investigations with another limit, as a multiple of it: docs/decisions/0028."""

times: list[tuple[float, str, float]] = []
"""The seconds of each investigation, its name, and the seconds of the measuring query before it."""


def best_of_three(server: Server, query: str, parameters: dict[str, str]) -> float:
    """Return the shortest of three durations of a query, in seconds."""
    tries = []
    for _ in range(3):
        started = time.monotonic()
        for _ in server.reader.stream(query, parameters):
            pass
        tries.append(time.monotonic() - started)
    return min(tries)


@dataclass(frozen=True)
class Year:
    server: Server
    vms: int


@pytest.fixture(scope="module", params=MEASURES, ids=lambda vms: f"{vms}_vms")
def year(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Year]:
    with running(tmp_path_factory.mktemp("year")) as server:
        # Its table is filled directly, because samples are not kept for all weeks of the year.
        server.admin.command("DROP VIEW latency_baselines_mv")
        started = time.monotonic()
        for path in sorted(YEAR.glob("*.sql")):
            fill(server, path, request.param)
        merge_past_months(server)
        print(f"filled in {time.monotonic() - started:.0f} s", flush=True)
        times.clear()
        yield Year(server, request.param)
    print()
    for seconds, name, measure in sorted(times, reverse=True):
        print(f"{name:45} {seconds:6.3f} s, the measure {measure:6.3f} s")


@pytest.mark.parametrize("name", investigations())
def test_an_investigation_of_a_year_answers_in_time(year: Year, name: str) -> None:
    investigation = investigations()[name]
    parameters = investigation.parameters(
        {each: GIVEN[each] for each, value in investigation.defaults.items() if value is None}
    )
    measure = best_of_three(year.server, MEASURE, {})
    seconds = best_of_three(year.server, investigation.query, parameters)
    times.append((seconds, name, measure))
    limit_s = MEASURES[year.vms] * max(0.5, measure) * TIMES_AS_LONG.get(name, 1)
    assert seconds < limit_s, f"{seconds:.2f} s, and the measure {measure:.2f} s"
