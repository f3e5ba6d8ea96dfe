"""A host in maintenance alarms nobody, for as long as vCenter says that it is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from stunwatch.alerts.marks import read_marks
from tests.investigations.server import Server, running

NOW = datetime.now(UTC)
HOST_INCIDENT = {"scope": "host", "hosts": ["esx01"], "devices": [], "datastores": []}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("maintenance")) as made:
        yield made


def told(server: Server, host: str, *states: tuple[int, bool | None]) -> None:
    """What vCenter said so many minutes ago."""
    rows = [
        {
            "event_id": f"00000000-0000-5000-8000-{number:06}{minutes:06}",
            "revision": 1,
            "kind": "host",
            "told_by": "vcenter hosts",
            "host": host,
            "observed_at": f"{NOW - timedelta(minutes=minutes):%Y-%m-%d %H:%M:%S.%f}",
            "is_in_maintenance": is_in,
        }
        for number, (minutes, is_in) in enumerate(states)
    ]
    lines = b"\n".join(map(orjson.dumps, rows)).decode()
    server.admin.command(f"INSERT INTO inventory_stored FORMAT JSONEachRow\n{lines}")


def mutes(server: Server, host: str) -> list[tuple[bool, bool]]:
    """(is active, is lifted) of each, in order."""
    return [
        (bool(active), bool(lifted))
        for active, lifted in server.reader.rows(
            "SELECT is_active, isNotNull(lifted_at) FROM mutes WHERE host = {host:String}"
            " ORDER BY muted_at",
            {"host": host},
        )
    ]


def test_it_is_silent_from_when_it_enters_until_it_leaves(server: Server) -> None:
    server.empty()
    told(server, "esx01.lab.example", (90, False), (60, True), (30, True))
    told(server, "esx02.lab.example", (90, True), (60, False), (30, False))
    told(server, "esx03.lab.example", (90, False), (60, None), (30, False))
    told(server, "esx04.lab.example", (90, True), (60, False), (30, True))
    assert mutes(server, "esx01.lab.example") == [(True, False)]
    assert mutes(server, "esx02.lab.example") == [(False, True)]
    assert mutes(server, "esx03.lab.example") == []
    assert mutes(server, "esx04.lab.example") == [(False, True), (True, False)]
    marks = read_marks(server.settings)
    muted_until = marks.muted_until(HOST_INCIDENT, NOW)
    assert muted_until == pytest.approx((NOW + timedelta(days=30, minutes=-60)).timestamp(), abs=1)
    assert marks.muted_until({**HOST_INCIDENT, "hosts": ["esx02"]}, NOW) is None
    told(server, "esx01.lab.example", (0, False))
    assert mutes(server, "esx01.lab.example") == [(False, True)]


def test_it_is_forgotten_by_nobody(server: Server) -> None:
    server.empty()
    told(server, "esx01.lab.example", (31 * 24 * 60, True))
    assert mutes(server, "esx01.lab.example") == [(False, False)]


def test_somebody_may_lift_it(server: Server) -> None:
    server.empty()
    told(server, "esx01.lab.example", (60, True))
    [found] = server.reader.named_rows("SELECT * FROM mutes")
    assert (found["reason"], found["muted_by"]) == ("in maintenance", "vcenter")
    found.pop("is_active")
    row = orjson.dumps({**found, "lifted_at": f"{NOW:%Y-%m-%d %H:%M:%S}.000"}).decode()
    server.admin.command(f"INSERT INTO mutes_stored FORMAT JSONEachRow {row}")
    assert mutes(server, "esx01.lab.example") == [(False, True)]
