"""Expired rows are not reported as lost: views distinguish them from rows that never arrived."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.audit.files import stored_files
from stunwatch.definitions import definitions
from stunwatch.schema import SQL
from tests.clickhouse_server import Server, insertion

NOW = datetime.now(UTC)
LINES_DAYS, SAMPLES_DAYS = 30, 90


def insert(server: Server, table: str, rows: Iterable[dict[str, Any]]) -> None:
    server.admin.command(insertion(table, rows))


def ago(days: float) -> str:
    return f"{NOW - timedelta(days=days):%Y-%m-%d %H:%M:%S.%f}"


def line(generation: str, offset: int, days: float, **more: Any) -> dict[str, Any]:
    """Return a line of ten bytes that was received this many days ago."""
    return {
        "source": "vmware_log",
        "vm": generation,
        "event_time": ago(days),
        "received_at": ago(days),
        "file": "vmware.log",
        "generation": generation,
        "offset": offset,
        "line_bytes": 10,
        **more,
    }


def expire(server: Server, table: str, days: int) -> None:
    """Delete rows as a merge does with the TTL of sql/retention.sql."""
    server.admin.command(f"DELETE FROM {table} WHERE received_at < now64() - INTERVAL {days} DAY")


def gaps(server: Server) -> dict[str, list[list[int]]]:
    return dict(server.reader.rows("SELECT generation, gaps FROM coverage"))


def test_expired_lines_of_a_vm_that_runs_for_months_are_not_missing(server: Server) -> None:
    server.empty()
    days = [*range(100, 20, -1), 10, 0]
    insert(server, "log_lines_stored", [line("a", 10 * n, day) for n, day in enumerate(days)])
    expire(server, "log_lines_stored", LINES_DAYS)
    assert server.reader.rows("SELECT count() > 0 FROM log_lines_stored") == [(True,)]
    assert gaps(server) == {"a": []}
    assert server.reader.rows("SELECT kind FROM quality_events") == []
    assert [each.gaps for each in stored_files(server.reader)] == [()]


def test_lines_that_did_not_arrive_within_the_retention_are_missing(server: Server) -> None:
    server.empty()
    insert(
        server,
        "log_lines_stored",
        [
            *(line("old", 10 * n, 40 - n) for n in range(40) if n not in (5, 30)),
            # A new file whose first lines were lost.
            *(line("new", 10 * n, 3) for n in range(7, 9)),
            # Lines of 35 days ago that were lost then, and sent again now.
            *(line("mended", 10 * n, 0 if n in (2, 3) else 40 - n) for n in range(40)),
            # The log had no lines for longer than the retention.
            line("quiet", 0, 60),
            line("quiet", 10, 0),
        ],
    )
    expire(server, "log_lines_stored", LINES_DAYS)
    wanted = {"old": [(300, 310)], "new": [(0, 70)], "mended": [], "quiet": []}
    assert gaps(server) == {name: [list(gap) for gap in all_] for name, all_ in wanted.items()}
    assert server.reader.rows(
        "SELECT toUInt64(count) FROM quality_events WHERE kind = 'gap' ORDER BY ALL"
    ) == [(10,), (70,)]
    found = {each.generation: list(each.gaps) for each in stored_files(server.reader)}
    assert found == wanted
    # The end of a file is not reported as missing after it expired.
    insert(server, "log_lines_stored", [line("ended", 10, 50), line("ended", 0, 1)])
    expire(server, "log_lines_stored", LINES_DAYS)
    [ended] = [each for each in stored_files(server.reader) if each.generation == "ended"]
    assert (ended.bytes_to, ended.gaps) == (20, ())


def test_rejected_lines_of_an_esxtop_file_expire_before_its_samples(server: Server) -> None:
    server.empty()
    sample = {"object_class": "scsi_device", "device": "naa.1", "davg_ms": 1, "host": "esx1"}
    of_file = [line("e", 100 + 10 * n, 80 - n) for n in range(60)]
    rejected = of_file.pop(20)
    insert(
        server,
        "latency_samples_stored",
        [each | sample | {"sampled_at": each["event_time"]} for each in of_file],
    )
    insert(server, "rejected_lines_stored", [rejected | {"line": "x", "reason": "y"}])
    assert gaps(server) == {"e": []}
    expire(server, "rejected_lines_stored", LINES_DAYS)
    assert gaps(server) == {"e": []}


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[float, bool]]:
    """Draw the lines of a file in order: the age of each in days, and whether it arrived."""
    steps = draw(st.lists(st.tuples(st.floats(0, 9), st.booleans()), min_size=1, max_size=30))
    days, found = 0.0, []
    for step, arrived in reversed(steps):
        found.append((days, arrived))
        days += step
    return found[::-1]


def test_only_lost_lines_are_missing_in_any_history_of_a_file(server: Server) -> None:
    @settings(max_examples=4)
    @given(st.lists(histories(), min_size=20, max_size=40))
    def only_what_was_lost_is_missing(files: list[list[tuple[float, bool]]]) -> None:
        """Several files at a time, because an insert takes longer than its rows."""
        named = {uuid4().hex: history for history in files}
        arrived = {
            generation: [
                line(generation, 10 * number, days)
                for number, (days, has_arrived) in enumerate(history)
                if has_arrived
            ]
            for generation, history in named.items()
        }
        insert(server, "log_lines_stored", chain.from_iterable(arrived.values()))
        expire(server, "log_lines_stored", LINES_DAYS)
        found = gaps(server)
        for generation, history in named.items():
            if not arrived[generation]:
                continue
            missing = {
                offset
                for start, end in found.get(generation, [])
                for offset in range(start, end, 10)
            }
            lost = {10 * number for number, (_, has) in enumerate(history) if not has}
            assert missing <= lost
            # Losses between the last line that can have expired and the last line are detected.
            old = [n for n, (days, has) in enumerate(history) if has and days >= LINES_DAYS - 1]
            known = range(10 * old[-1] if old else 0, arrived[generation][-1]["offset"], 10)
            assert lost & {*known} <= missing

    server.empty()
    only_what_was_lost_is_missing()


def window(minute: str, samples: int, davg_ms: float) -> dict[str, Any]:
    return {
        "event_id": str(uuid4()),
        "revision": 1,
        "detected_at": minute,
        "host": "esx1",
        "object_class": "scsi_device",
        "device": "naa.1",
        "window_seconds": 60,
        "window_start": minute,
        "avg_davg_ms": davg_ms,
        "samples": samples,
    }


def test_a_recalculated_minute_is_kept_after_its_samples_expire(server: Server) -> None:
    server.empty()
    minute = (NOW - timedelta(days=SAMPLES_DAYS + 5)).replace(second=0, microsecond=0)
    name = f"{minute:%Y-%m-%d %H:%M:%S}"
    of_device = {"host": "esx1", "object_class": "scsi_device", "device": "naa.1"}
    insert(server, "latency_windows_stored", [window(name, 3, 10.0)])
    insert(server, "latency_windows_late", [{**of_device, "window_start": name}])
    samples = [
        {
            **of_device,
            "sampled_at": f"{minute + timedelta(seconds=second):%Y-%m-%d %H:%M:%S}",
            # The last one arrived a week later.
            "received_at": f"{minute + timedelta(days=7 * (second == 45)):%Y-%m-%d %H:%M:%S}",
            "davg_ms": 10 if second < 45 else 50,
        }
        for second in (0, 15, 30, 45)
    ]
    insert(server, "latency_samples_stored", samples)
    shown = "SELECT samples, avg_davg_ms FROM latency_windows"
    assert server.reader.rows(shown) == [(4, 20)]
    # The first three samples expire, the late one does not.
    expire(server, "latency_samples_stored", SAMPLES_DAYS)
    assert server.reader.rows("SELECT count() FROM latency_samples_stored") == [(1,)]
    assert server.reader.rows(shown) == [(3, 10)]
    expire(server, "latency_samples_stored", 0)
    assert server.reader.rows(shown) == [(3, 10)]


@pytest.mark.parametrize("name", ["views/coverage.sql", "queries/audit/files.sql"])
def test_views_use_the_retention_of_lines(name: str) -> None:
    kept = {each.table: each.kept for each in definitions().values() if not each.is_event}
    assert kept == {
        "log_lines_stored": f"{LINES_DAYS} days",
        "rejected_lines_stored": f"{LINES_DAYS} days",
        "latency_samples_stored": f"{SAMPLES_DAYS} days",
    }
    assert f"if(is_samples, {SAMPLES_DAYS}, {LINES_DAYS})" in (SQL / name).read_text()
