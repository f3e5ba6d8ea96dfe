"""Alerts for a host are silenced while it is in maintenance according to vCenter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from stunwatch.alerts.marks import read_marks
from tests.clickhouse_server import Server

NOW = datetime.now(UTC)
HOST_INCIDENT = {"scope": "host", "hosts": ["esx01"], "devices": [], "datastores": []}


def told(server: Server, host: str, *states: tuple[int, bool | None]) -> None:
    """Insert maintenance states from vCenter: (minutes ago, is in maintenance)."""
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
    """Return (is active, is lifted) of each silence, in order."""
    return [
        (bool(active), bool(lifted))
        for active, lifted in server.reader.rows(
            "SELECT is_active, isNotNull(lifted_at) FROM mutes WHERE host = {host:String}"
            " ORDER BY muted_at",
            {"host": host},
        )
    ]


def test_a_host_is_silenced_from_entering_to_leaving_maintenance(server: Server) -> None:
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


def test_the_silence_for_maintenance_expires_after_a_month(server: Server) -> None:
    server.empty()
    told(server, "esx01.lab.example", (31 * 24 * 60, True))
    assert mutes(server, "esx01.lab.example") == [(False, False)]


def test_a_user_can_lift_the_silence_for_maintenance(server: Server) -> None:
    server.empty()
    told(server, "esx01.lab.example", (60, True))
    [found] = server.reader.named_rows("SELECT * FROM mutes")
    assert (found["reason"], found["muted_by"]) == ("in maintenance", "vcenter")
    found.pop("is_active")
    row = orjson.dumps({**found, "lifted_at": f"{NOW:%Y-%m-%d %H:%M:%S}.000"}).decode()
    server.admin.command(f"INSERT INTO mutes_stored FORMAT JSONEachRow {row}")
    assert mutes(server, "esx01.lab.example") == [(False, True)]
