"""Stored lines are equal to those that were read, byte for byte; none is lost, none is doubled."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from stunwatch.ingest.records import LineRecords, Origin, WireRecords
from stunwatch.ingest.replay import BACKFILL, Options, Reading, plan
from stunwatch.simulation.run import Scale, Simulation, write
from tests.clickhouse_server import Server
from tests.corpus.cases import cases as corpus_cases
from tests.ingest.own_lines import cases as head_cases
from tests.ingest.own_lines import examples
from tests.ingest.test_corpus import CORPUS
from tools.bench.storage import line_bytes

Record = dict[str, Any]
ARRIVED_AT = datetime(2026, 11, 21, 5, tzinfo=UTC)
"""Near the time of arrival in Kafka, which is ARRIVED in tests/clickhouse_server.py."""

AT_ONCE = 20_000
KEY = ("generation", "offset", "event_time", "message")
SHOWN = ("thread", "op_id", "head", "message", "received_at")
STORED = f"""
SELECT generation, offset, event_time, thread, op_id, head, message, received_at
FROM log_lines ORDER BY {", ".join(KEY)}, head
"""


@pytest.fixture(autouse=True)
def emptied(server: Server) -> None:
    server.empty()


def read(server: Server, records: Iterable[Record], topic: str = BACKFILL) -> None:
    """Process records as if they came from Kafka."""
    messages = ((topic, orjson.dumps(each)) for each in records)
    while batch := list(islice(messages, AT_ONCE)):
        server.read(batch)


def text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06}Z"


def line(number: int = 0, **fields: Any) -> Record:
    """Return a record of a line of a file; `number` is its place."""
    return {
        "event_time": "2026-11-21T04:05:06.789Z",
        "received_at": text(ARRIVED_AT),
        "kind": "line",
        "source": "syslog",
        "program": "vmkernel",
        "host": "esx01",
        "message": "message",
        "file": "vmkernel.log",
        "generation": "00000000000000aa",
        "offset": number * 100,
        "line_bytes": 100,
        "run_id": "r",
        "time_quality": "exact",
    } | fields


def of_network(number: int = 0, **fields: Any) -> Record:
    """Return a record of a line that was received over the network."""
    of_file = {"file", "generation", "offset", "line_bytes"}
    made = {name: value for name, value in line(number).items() if name not in of_file}
    return made | {"run_id": "live", "message": f"message {number}"} | fields


def key(record: Record) -> tuple[Any, ...]:
    moment = datetime.fromisoformat(record["event_time"])
    return (
        record.get("generation", ""),
        record.get("offset", 0),
        f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond:06}",
        *(record.get(name, "") for name in ("thread", "op_id", "head", "message")),
    )


def is_stored(server: Server, records: list[Record]) -> None:
    """Check that exactly these lines are stored, and with the same fields."""
    stored = sorted(each[:-1] for each in server.reader.rows(STORED))
    wanted = sorted({key(each) for each in records})
    assert len(stored) == len(wanted)
    assert [pair for pair in zip(stored, wanted, strict=True) if pair[0] != pair[1]] == []


def records_of(folder: Path, options: Options) -> Iterator[Record]:
    with plan([folder], options) as what:
        for file in what.files:
            for batch in Reading(file, "r", options, now=lambda: ARRIVED_AT):
                for topic, _, record in batch:
                    if topic == BACKFILL and record["kind"] == "line":
                        yield record


def own_corpus() -> Iterator[Record]:
    """Yield the records of our own lines, each as a line of a file and as one from the network."""
    lines = [
        *(each for case in corpus_cases() for each in case.lines),
        *(each.line for each in head_cases()),
        *(each for _, each in examples()),
    ]
    wire = WireRecords()
    for number, each in enumerate(lines):
        yield wire.make(each.encode(), "192.0.2.1", ARRIVED_AT + timedelta(milliseconds=number))
        for source in ("vmware_log", "syslog"):
            origin = Origin("r", source, host="esx01", file=source, generation=f"{source}{number}")
            yield LineRecords(origin, written_at=ARRIVED_AT).make(
                each.encode(), text(ARRIVED_AT), number, len(each) + 1
            )


def test_every_line_of_our_corpora_is_stored_byte_for_byte(server: Server) -> None:
    records = [each for each in own_corpus() if each.get("kind") == "line"]
    assert len(records) > 1_000
    read(server, records)
    is_stored(server, records)


@pytest.mark.skipif(
    not (CORPUS / "INDEX.tsv").is_file(), reason="The published lines are not on this machine."
)
def test_every_published_line_is_stored_byte_for_byte(server: Server) -> None:
    records = list(records_of(CORPUS, Options(vm="vm01")))
    read(server, records)
    is_stored(server, records)


def test_every_simulated_line_is_stored_byte_for_byte(server: Server, tmp_path: Path) -> None:
    write(Simulation(Scale(seed=7, hosts=20, vms=60, minutes=10)), tmp_path)
    records = list(records_of(tmp_path, Options()))
    assert len(records) > 5_000
    read(server, records)
    is_stored(server, records)


def test_heads_of_any_bytes_are_stored_byte_for_byte(server: Server) -> None:
    parts = (
        *("\0", "\1", "\2", "\3", "\4", ":05:06.789", ":05:06", "2026-11-21T04", "05:06.789"),
        *("vmx", "op-1", "v", "x", "-", "In(05)", " ", "|", "é", "\\", "'", "\n"),
    )
    dice = random.Random(7)
    records = [
        line(
            number,
            head="".join(dice.choices(parts, k=dice.randint(1, 7))),
            **({"thread": dice.choice(parts[:-1])} if number % 3 else {}),
            **({"op_id": dice.choice(parts[:-1])} if number % 2 else {}),
            event_time=dice.choice(
                ("2026-11-21T04:05:06Z", "2026-11-21T04:05:06.789Z", "1970-01-01T00:00:00.000001Z")
            ),
        )
        for number in range(5_000)
    ]
    records += [line(number, thread="vmx", op_id="a") for number in range(5_000, 5_010)]
    read(server, records)
    is_stored(server, records)


def test_the_time_of_arrival_is_stored_with_milliseconds(server: Server) -> None:
    for number, seconds in enumerate((0, 0.001, 0.25, 3599.999, 3600, 3600.001, 86400, -5, -90000)):
        event_time = ARRIVED_AT - timedelta(seconds=seconds, microseconds=77)
        read(server, [line(number, event_time=text(event_time))])
    read(server, [line(20, event_time="2199-12-31T00:00:00Z")])
    read(server, [line(21, event_time="1900-01-01T00:00:00Z")])
    assert server.reader.rows("SELECT DISTINCT received_at FROM log_lines") == [
        (f"{ARRIVED_AT:%Y-%m-%d %H:%M:%S}.000000",)
    ]


@pytest.mark.parametrize("made", [line, of_network])
@pytest.mark.parametrize("age", [timedelta(seconds=1), timedelta(days=30)])
def test_of_two_copies_the_first_arrival_is_kept(server: Server, made: Any, age: timedelta) -> None:
    stamp = text(ARRIVED_AT - age)
    for minutes in (0, 70, -70, 5, -5):
        arrived = ARRIVED_AT + timedelta(minutes=minutes)
        read(
            server,
            [made(event_time=stamp, received_at=text(arrived), run_id=f"{minutes} minutes")],
            "esxi.syslog",
        )
        first = server.reader.rows("SELECT run_id FROM log_lines")
        server.admin.command("OPTIMIZE TABLE log_lines_stored FINAL")
        assert server.reader.rows("SELECT run_id FROM log_lines_stored") == first
    assert first == [("-70 minutes",)]


def test_different_lines_of_one_moment_are_all_stored(server: Server) -> None:
    records = [
        # Two files, with the same offsets; and lines of the network, with and without a fraction.
        *(
            line(number, generation=name, message=name)
            for number in range(9)
            for name in ("a", "b")
        ),
        *(of_network(number) for number in range(3_000)),
        *(of_network(number, event_time="2026-11-21T04:05:06Z") for number in range(3_000)),
        *(of_network(message="the same", thread=f"cpu{number}:7") for number in range(3)),
    ]
    # The last three differ only by a column that is not their identity.
    distinct = len(records) - 2
    for _ in range(2):
        read(server, records, "esxi.syslog")
    assert server.reader.rows("SELECT count() FROM log_lines") == [(distinct,)]
    server.admin.command("OPTIMIZE TABLE log_lines_stored FINAL")
    assert server.reader.rows("SELECT count() FROM log_lines_stored") == [(distinct,)]


def count_with(server: Server, words: str) -> int:
    question = "SELECT count() FROM log_lines_with(words = {words:String})"
    [(count,)] = server.admin.rows(question, {"words": words})
    return int(count)


def words_of(message: str) -> set[str]:
    """Split as `splitByNonAlpha` does: bytes that are no ASCII letter or digit separate words."""
    return {each.lower() for each in re.split(r"[^0-9A-Za-z\x80-\U0010ffff]+", message) if each}


def test_every_word_finds_all_lines_that_contain_it(server: Server) -> None:
    records = [each for each in own_corpus() if each.get("kind") == "line" and "offset" in each]
    for _ in range(2):
        read(server, records)
    by_word: dict[str, int] = {}
    for message in [each["message"] for each in records]:
        for word in words_of(message):
            by_word[word] = by_word.get(word, 0) + 1
    dice = random.Random(7)
    for word in dice.sample(sorted(by_word), 60):
        given = dice.choice((word, word.upper() if word.isascii() else word))
        assert count_with(server, given) == by_word[word], word
    for nothing in ("", " - ", "wordthatnobodywrote"):
        assert count_with(server, nothing) == 0


def test_a_rare_word_reads_few_granules(server: Server) -> None:
    read(server, (line(number, message=f"Sync CR at {number * 7919}") for number in range(60_000)))
    read(server, [line(70_000, message="naa.600601604550250018ea2d38073cdf11 is lost")])
    server.admin.command("OPTIMIZE TABLE log_lines_stored FINAL")
    plan_of_query = server.admin.rows(
        "EXPLAIN indexes = 1"
        " SELECT * FROM log_lines_with(words = '600601604550250018ea2d38073cdf11')"
    )
    shown = "\n".join(each for (each,) in plan_of_query)
    [read_granules] = re.findall(r"Name: words\n(?:.*\n){1,4}?\s*Granules: (\d+)/", shown)
    assert int(read_granules) == 1


@pytest.mark.slow
def test_a_night_takes_a_quarter_of_its_text_with_the_index(server: Server, tmp_path: Path) -> None:
    write(Simulation(Scale(seed=7, hosts=20, vms=200, minutes=90)), tmp_path)
    records = list(records_of(tmp_path, Options()))
    assert len(records) > 100_000
    read(server, records)
    figures = line_bytes(server.admin)
    assert figures["stored_lines"] == len(records)
    assert figures["stored_ratio"] >= 4
    assert figures["stored_ratio_without_index"] >= 6
    is_stored(server, records)
