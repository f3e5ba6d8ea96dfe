"""After a replay, incidents are computed while its lines are still being stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from stunwatch.event_span import EventSpan, HostsSent
from stunwatch.incidents.correlator import SEEN_TOPIC
from stunwatch.incidents_of_history import events_around
from stunwatch.ingest.replay import BACKFILL, ESXTOP, Options, Reading, plan
from stunwatch.simulation.run import Scale, Simulation, write
from tests.clickhouse_server import Server


def line(host: str, event_time: str, **others: str) -> tuple[str, str, dict[str, Any]]:
    record = {"kind": "line", "source": "syslog", "host": host, "event_time": event_time}
    return BACKFILL, host, record | others


def test_a_host_is_seen_in_the_ten_minutes_of_its_syslog_and_samples() -> None:
    hosts = HostsSent()
    hosts.look(
        [
            line("esx1", "2026-11-28T10:20:00Z"),
            line("esx1", "2026-11-28T10:20:00.5Z"),
            line("esx1", "2026-11-28T10:19:59.999999Z"),
            line("esx2", "2026-11-28T10:20:07Z", source="vmware_log", vm="vm01"),
            line("esx3", "2026-11-28T10:20:08Z", kind="progress"),
            line("", "2026-11-28T10:20:09Z"),
            (ESXTOP, "esx4", line("esx4", "2026-11-28T10:29:59Z", source="esxtop")[2]),
            ("esxi.rejected", "esx5", {"source": "syslog", "host": "esx5", "line": "?"}),
        ]
    )
    at = 1_795_861_200_000_000  # 2026-11-28T10:20:00Z
    assert list(hosts.rows()) == [
        {"host": "esx1", "seen_us": at, "last_us": at + 500_000},
        {"host": "esx1", "seen_us": at - 1, "last_us": at - 1},
        {"host": "esx4", "seen_us": at + 599_000_000, "last_us": at + 599_000_000},
    ]


def test_too_many_stretches_are_forgotten() -> None:
    hosts = HostsSent(most=2)
    for number in range(4):
        hosts.look([line(f"esx{number}", "2026-11-28T10:20:00Z")])
    assert not hosts.is_complete
    assert not list(hosts.rows())


def test_hosts_of_sent_lines_are_equal_to_those_of_stored_lines(
    server: Server, tmp_path: Path
) -> None:
    write(Simulation(Scale(seed=7, hosts=6, vms=12, minutes=40)), tmp_path)
    span, hosts, sent = EventSpan(), HostsSent(), []
    with plan([tmp_path], Options()) as found:
        for file in found.files:
            for messages in Reading(file, "a-run", Options()):
                span.look(messages)
                hosts.look(messages)
                sent += [(topic, orjson.dumps(record)) for topic, _, record in messages]

    def seen(*rows: dict[str, Any]) -> list[tuple[str, ...]]:
        fed = events_around(server.reader, span.span_us, rows)
        return sorted(tuple(map(str, row.values())) for topic, row in fed if topic == SEEN_TOPIC)

    # Of another time, as in a file with a wrong clock.
    hosts.look([line("esx9", "1969-12-31T23:59:59Z"), line("esx9", "2099-01-01T00:00:00Z")])
    before = seen(*hosts.rows())
    half = len(sent) // 2
    server.read(sent[:half])
    meanwhile = seen(*hosts.rows())
    server.read(sent[half:])
    assert len(before) >= 6 * 4
    assert before == meanwhile == seen()
