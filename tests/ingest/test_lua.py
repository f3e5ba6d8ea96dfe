"""The Lua filter makes the same records as Python. Runs without Fluent Bit.

Python's `Finder` replaces Fluent Bit's parser filter, and LuaJIT (lupa) its Lua filter.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from own_lines import Case, cases

from stunwatch.ingest.heads import FIELDS, WIRE, Finder
from stunwatch.ingest.records import WireRecords

luajit = pytest.importorskip("lupa.luajit21", reason="there is no LuaJIT: uv sync")

LUA = Path(__file__).resolve().parents[2] / "ingest/lua"
PEER = "192.0.2.1"
NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)

Make = Callable[[str, datetime], dict[str, Any]]


@pytest.fixture(scope="module")
def lua() -> Any:
    runtime = luajit.LuaRuntime(encoding="utf-8")
    runtime.execute(f'dofile("{LUA}/record.lua")')
    return runtime


@pytest.fixture(scope="module")
def make(lua: Any) -> Make:
    """Return a function from a network line to its record or rejection."""
    record = lua.globals().record

    def made(line: str, arrived_at: datetime) -> dict[str, Any]:
        found = Finder(WIRE, relays=False).find(line)
        groups = dict(zip(FIELDS, found[1], strict=True)) if found else {}
        given = {name: value for name, value in groups.items() if value is not None}
        table = lua.table_from({**given, "line": line, "peer": f"udp://{PEER}:514"})
        _, _, message = record("syslog", arrived_at.timestamp(), table)
        return dict(json.loads(message["value"]))

    return made


@pytest.mark.parametrize(
    "case", [each for each in cases() if each.found in ("wire", "servers")], ids=str
)
def test_lua_makes_the_expected_record_of_each_network_line(case: Case, make: Make) -> None:
    arrived_at = datetime.fromisoformat(case.received_at)
    assert make(case.line, arrived_at) == WireRecords().make(case.line.encode(), PEER, arrived_at)


@pytest.mark.parametrize("host_bytes", [255, 256, 5000])
def test_lua_and_python_reject_a_long_name(host_bytes: int, make: Make) -> None:
    line = f"<14>2024-05-06T07:08:09Z {'h' * host_bytes} vobd: x"
    record = make(line, NOW)
    assert record == WireRecords().make(line.encode(), PEER, NOW)
    assert ("reason" in record) == (host_bytes > 255)


def test_a_network_time_far_from_arrival_is_replaced_by_the_arrival(make: Make) -> None:
    for year in range(1970, 2200):
        record = make(f"<14>{year}-05-06T07:08:09.123Z esx01 vobd: x", NOW)
        event_time = datetime.fromisoformat(record["event_time"])
        assert timedelta(days=-40) <= event_time - NOW <= timedelta(days=1, minutes=1)
        assert ("stamped_at" in record) == (year != 2024)


def test_the_number_of_anchored_hosts_is_limited(lua: Any) -> None:
    count = lua.eval(
        """function(most, names)
            local recent = require("recent")
            local memory = recent.new(most)
            for number = 1, names do
                recent.put(memory, "host" .. number, number)
                assert(recent.get(memory, "host1") == 1, "what is used is kept")
            end
            local count = 0
            for _ in pairs(memory.newer) do count = count + 1 end
            for _ in pairs(memory.older) do count = count + 1 end
            return count
        end"""
    )(1000, 50_000)
    assert count <= 1000


def test_a_host_gets_a_new_anchor_after_a_flood_of_names(lua: Any) -> None:
    times = lua.eval('require("times")')
    for number in range(30_000):
        times.with_uptime(f"made-up-{number}", "2024-05-06T07:08:09Z", "0:00:00:01.500")
    anchored = times.with_uptime("esx01", "2024-05-06T07:08:09Z", "1:00:00:05.250")
    later = times.with_uptime("esx01", "2024-05-06T07:08:11Z", "1:00:00:06.750")
    assert (anchored, later) == ("2024-05-06T07:08:09.250Z", "2024-05-06T07:08:10.750Z")
