"""With a year of data, investigations answer in about a second: see `year/README.md`.

The test compares with a measuring query in the same run, because other load on the machine slows
down both.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stunwatch.investigations import investigations
from stunwatch.schema import statements
from tests.clickhouse_server import Server, running

YEAR = Path(__file__).parent / "year"

NOW = datetime.now(UTC)
"""The end of the year."""

ROWS = {
    "latency_baselines_stored": 1_060_000,
    "latency_samples_stored": 25_000_000,
    "latency_windows_stored": 54_800_000,
}
"""Tables that are too large for one insert. All others are filled with one."""

AT_A_TIME = 5_000_000

GIVEN = {"at": f"{NOW - timedelta(days=60):%Y-%m-%d} 12:00:00"}
"""Values of the required parameters."""

OF_RAW_LINES = {"what_is_missing"}
"""Investigations that read every stored line and sample, to find gaps in files. Their limit is one
minute."""

pytestmark = [pytest.mark.release, pytest.mark.timeout(900)]

MEASURE = "SELECT sum(sipHash64(number)) FROM numbers_mt(30000000)"
"""The measuring query. It takes half a second on two idle cores."""

MEASURES = 5
"""An answer may take as long as this number of measuring queries."""

times: list[tuple[str, float, float]] = []
"""For each investigation: its name, its seconds, and those of the measuring query before it."""


def fill(server: Server, table: str) -> None:
    """Fill a table in several inserts, to limit the server's memory."""
    (insert,) = statements((YEAR / f"{table}.sql").read_text())
    for first in range(0, ROWS.get(table, 1), AT_A_TIME):
        rows = min(AT_A_TIME, ROWS.get(table, 1) - first)
        for _ in server.admin.stream(
            insert,
            {"now": f"{NOW:%Y-%m-%d %H:%M:%S}.000", "first": first, "rows": rows},
            settings={
                "min_insert_block_size_rows": "200000",
                "min_insert_block_size_bytes": "50000000",
            },
        ):
            pass


def best_of_three(server: Server, query: str, parameters: dict[str, str]) -> float:
    """Return the shortest of three durations of a query, in seconds."""
    tries = []
    for _ in range(3):
        started = time.monotonic()
        for _ in server.reader.stream(query, parameters):
            pass
        tries.append(time.monotonic() - started)
    return min(tries)


@pytest.fixture(scope="module")
def a_year(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("year")) as server:
        # Its table is filled directly, because samples are not kept for all weeks of the year.
        server.admin.command("DROP VIEW latency_baselines_mv")
        for path in sorted(YEAR.glob("*.sql")):
            started = time.monotonic()
            fill(server, path.stem)
            print(f"{path.stem} filled in {time.monotonic() - started:.1f} s", flush=True)
        yield server
    print()
    for name, seconds, measure in sorted(times, key=lambda each: -each[1]):
        print(f"{name:45} {seconds:6.3f} s, the measure {measure:6.3f} s")


@pytest.mark.parametrize("name", investigations())
def test_an_investigation_answers_in_about_a_second(a_year: Server, name: str) -> None:
    investigation = investigations()[name]
    parameters = investigation.parameters(
        {each: GIVEN[each] for each, value in investigation.defaults.items() if value is None}
    )
    measure = best_of_three(a_year, MEASURE, {})
    seconds = best_of_three(a_year, investigation.query, parameters)
    times.append((name, seconds, measure))
    limit_s = 60 if name in OF_RAW_LINES else max(1, MEASURES * measure)
    assert seconds < limit_s, f"{seconds:.2f} s, and the measure {measure:.2f} s"
