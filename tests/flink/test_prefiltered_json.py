"""The format drops only lines that the job does not need, however their JSON is written."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple

import orjson
import pytest
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment

from stunwatch.detectors.catalogue import LONGEST_SEARCHED, literals
from stunwatch.engine.owners import LIVE
from stunwatch.engine.tracking import RECORD_FIELDS
from stunwatch.settings import ROOT
from tests.hostile_messages import broken_messages, mutated_messages

pytestmark = pytest.mark.integration

luajit = pytest.importorskip("lupa.luajit21", reason="there is no LuaJIT: uv sync")

COLUMNS = [name for name in RECORD_FIELDS if name not in ("owner", "kafka_offset")]
"""The columns of `records` in jobs/detect.sql that a message contains."""
READ = ("kind", "source", "run_id", "host", "event_time", "message")
"""The columns that decide."""

SCHEMA = orjson.loads((ROOT / "schemas" / "log_line.v1.schema.json").read_bytes())
FIELDS = [*SCHEMA["properties"]]

PARTS = [
    *('"', "\\", "/", "\t", "\n", "\x00", "\x1b", "\x7f", "é", "日本", "\N{GRINNING FACE}", " "),
    *('","kind":"progress', '"host":"esx09"', '\\"host":', "\\u00", "\\/", "{", "}]", "'"),
]
NOISE = ["a line ", "VSCSI: 2891: handle 8192", "cpu1:1)x", "/vmfs/volumes/ds1", "12"]
HOSTS = ["esx01", "esx02.lab.example", "192.0.2.7", "2001:db8::7", "büro", "", "a\\b", 'a"b']
TIMES = [
    *(f"2024-05-06T07:{minute:02}:01.123Z" for minute in range(0, 60, 7)),
    *("2999-01-01T00:00:00Z", "2024-05-06", "", "é" * 20),
]


class Row(NamedTuple):
    """A row as Flink prints it, and its mark."""

    text: str
    is_first_seen: bool


class Context:
    """What Flink gives a format when a task starts."""

    def getMetricGroup(self) -> Any:
        return get_gateway().jvm.org.apache.flink.metrics.groups.UnregisteredMetricsGroup()

    class Java:
        implements = (
            "org.apache.flink.api.common.serialization.DeserializationSchema$InitializationContext",
        )


class Collector:
    """Keeps rows of Java."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def collect(self, row: Any) -> None:
        """Keep one row. Flink's JSON format collects NULL for invalid JSON."""
        if row is not None:
            self.rows.append(row)

    def close(self) -> None:
        """Nothing is open."""

    class Java:
        implements = ("org.apache.flink.util.Collector",)


Read = Callable[[bytes], list[Any]]
"""Reads a message and returns rows of Java."""


def shown(row: Any) -> Row:
    """Return a row of the prefiltered format, whose last column is its mark."""
    text, _, mark = str(row.toString()).removesuffix(")").rpartition(",")
    return Row(text, mark == "true")


def columns(row: Any) -> dict[str, str | None]:
    """Return the columns that decide."""
    places = {name: COLUMNS.index(name) for name in READ}
    return {
        name: None if row.isNullAt(place) else row.getString(place).toString()
        for name, place in places.items()
    }


@pytest.fixture
def reader(java_classes: str) -> Callable[..., Read]:
    """Return a maker of formats: Flink's JSON format without names of columns to add."""
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("pipeline.jars", java_classes)
    gateway = get_gateway()
    jvm = gateway.jvm
    types = jvm.org.apache.flink.table.types.logical

    def array(kind: Any, values: list[Any]) -> Any:
        made = gateway.new_array(kind, len(values))
        for number, value in enumerate(values):
            made[number] = value
        return made

    kinds = [
        types.BigIntType() if name == "offset" else types.VarCharType(2147483647)
        for name in COLUMNS
    ]
    row = types.RowType.of(array(types.LogicalType, kinds), array(jvm.String, COLUMNS))
    produced = jvm.org.apache.flink.table.runtime.typeutils.InternalTypeInfo.of(row)
    iso = jvm.org.apache.flink.formats.common.TimestampFormat.SQL
    json_format = jvm.org.apache.flink.formats.json.JsonParserRowDataDeserializationSchema

    def reading(*added: str) -> Read:
        schema = json_format(row, produced, False, True, iso)
        if added:
            schema = jvm.io.github.stunwatch.PrefilteredJson(
                schema,
                produced,
                array(jvm.String, [*literals()]),
                LONGEST_SEARCHED,
                jvm.java.util.List.of(*added),
                array(jvm.int, [COLUMNS.index(name) for name in READ[:5]]),
            )
        schema.open(Context())

        def read(message: bytes) -> list[Row]:
            out = Collector()
            schema.deserialize(message, out)
            return out.rows

        return read

    return reading


@pytest.fixture
def formats(reader: Callable[..., Read]) -> tuple[Read, Read]:
    """Return Flink's JSON format, which marks no row, and the prefiltered one."""
    return reader(), reader("is_first_seen")


class Seen:
    """Which hosts are marked, computed from rows that Flink's JSON format has parsed."""

    def __init__(self) -> None:
        self._intervals: dict[str, str] = {}

    def is_first(self, row: Mapping[str, str | None]) -> bool:
        host, time = row["host"], row["event_time"]
        if (row["kind"], row["source"], row["run_id"]) != ("line", "syslog", LIVE):
            return False
        if not host or not time or len(time) < 15:
            return False
        interval = min(time[:15], datetime.now(UTC).isoformat()[:15])
        if interval <= self._intervals.get(host, ""):
            return False
        self._intervals[host] = interval
        return True


def is_candidate(row: Mapping[str, str | None]) -> bool:
    """Return what the view `candidates` in jobs/detect.sql selects."""
    message = row["message"] or ""
    return row["kind"] == "progress" or (
        row["kind"] == "line"
        and len(message) <= LONGEST_SEARCHED
        and any(map(message.__contains__, literals()))
    )


def assert_equal(formats: tuple[Read, Read], messages: Iterator[bytes]) -> tuple[int, int]:
    """Read messages with both formats. Return how many rows Flink's has, and how many ours."""
    plain, prefiltered = formats
    seen, numbers = Seen(), [0, 0]
    for message in messages:
        wanted, found = plain(message), [*map(shown, prefiltered(message))]
        read = [*map(columns, wanted)]
        marks = [*map(seen.is_first, read)]
        if found:
            texts = [str(row.toString()).removesuffix(")") for row in wanted]
            assert found == [*map(Row, texts, marks)], message[:2000]
        else:
            assert not any(marks), message[:2000]
            assert not any(map(is_candidate, read)), message[:2000]
        numbers[0] += len(wanted)
        numbers[1] += len(found)
    return numbers[0], numbers[1]


def escaped(record: Mapping[str, Any], share: float) -> bytes:
    """Return a record with this share of its names and texts in escape sequences."""
    rng = random.Random(repr(record))

    def text(value: Any) -> str:
        whole = json.dumps(value, ensure_ascii=False)
        if not isinstance(value, str) or rng.random() > share:
            return whole
        units = value.encode("utf-16-be")
        pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
        return '"' + "".join(f"\\u{pair}" for pair in pairs) + '"'

    members = (f"{text(name)}:{text(each)}" for name, each in record.items())
    return ("{" + ",".join(members) + "}").encode()


def twice(record: Mapping[str, Any]) -> bytes:
    """Return a record with another one's fields after its own."""
    other = orjson.dumps(record_of(random.Random(repr(record))))
    return orjson.dumps(record)[:-1] + b"," + other[1:]


def fluent_bit() -> Callable[[Mapping[str, Any]], bytes]:
    """Return how Fluent Bit writes a record: ingest/lua/message.lua."""
    runtime = luajit.LuaRuntime(encoding="utf-8")
    runtime.execute(f'package.path = "{ROOT}/ingest/lua/?.lua;" .. package.path')
    message = runtime.eval('require("message")')
    fields = runtime.table_from(FIELDS)

    def written(record: Mapping[str, Any]) -> bytes:
        return str(message.of("esxi.syslog", runtime.table_from(record), fields)["value"]).encode()

    return written


def spaced(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(" ,\r\n\t", " : ")).encode()


WAYS: dict[str, Callable[[Mapping[str, Any]], bytes]] = {
    "stunwatch": orjson.dumps,
    "stunwatch, pretty": lambda record: orjson.dumps(record, option=orjson.OPT_INDENT_2),
    "Fluent Bit": fluent_bit(),
    "spaces": spaced,
}
"""The ways of the shippers. Their lines are dropped before they are parsed."""

OTHER_WAYS: dict[str, Callable[[Mapping[str, Any]], bytes]] = {
    "ASCII": lambda record: json.dumps(record).encode(),
    "slashes": lambda record: orjson.dumps(record).replace(b"/", b"\\/"),
    "all escaped": lambda record: escaped(record, 1),
    "some escaped": lambda record: escaped(record, 0.1),
    "UTF-16": lambda record: orjson.dumps(record).decode().encode("utf-16-le"),
    "a list": lambda record: b"[" + orjson.dumps(record) + b"," + orjson.dumps(record) + b"]",
    "twice": twice,
}


def record_of(rng: random.Random) -> dict[str, Any]:
    """Return a random record, in any order of fields."""
    texts = [rng.choice(rng.choice([PARTS, NOISE])) for _ in range(rng.randrange(6))]
    if rng.random() < 0.3:
        literal = rng.choice(literals())
        cut = rng.randrange(len(literal)) if rng.random() < 0.4 else None
        if cut is not None:
            literal = literal[:cut] + literal[cut + 1 :]
        texts.insert(rng.randrange(len(texts) + 1), literal)
    record = {
        "event_time": rng.choice(TIMES),
        "received_at": "2024-05-06T07:08:09.123Z",
        "kind": rng.choice(["line"] * 12 + ["progress", "unknown"]),
        "source": rng.choice(["syslog", "syslog", "vmware_log"]),
        "host": rng.choice(HOSTS),
        "message": "".join(texts),
        "head": rng.choice(["", *literals(), *PARTS]),
        "file": "/var/log/vmkernel.log",
        "offset": rng.randrange(10**9),
        "run_id": rng.choice([LIVE, LIVE, "r1"]),
        "time_quality": "exact",
    }
    for name in rng.sample([*record], rng.randrange(2)):
        del record[name]
    names = [*record]
    if rng.random() < 0.5:
        rng.shuffle(names)
    return {name: record[name] for name in names}


def damaged(rng: random.Random, message: bytes) -> bytes:
    """Return a message with a byte changed, removed or inserted, or cut."""
    at = rng.randrange(len(message) + 1)
    new = rng.choice(
        [b"", b'"', b"\\", b"\xff", b"\xc3", b"\x00", b"{", b"}", b",", b":", b" ", b"0"]
    )
    return (
        message[:at]
        if rng.random() < 0.2
        else message[:at] + new + message[at + rng.randrange(2) :]
    )


@pytest.mark.parametrize("way", [*WAYS, *OTHER_WAYS])
def test_random_records_give_the_same_rows(way: str, formats: tuple[Read, Read]) -> None:
    rng = random.Random(f"records {way}")
    write = {**WAYS, **OTHER_WAYS}[way]
    rows, kept = assert_equal(formats, (write(record_of(rng)) for _ in range(500)))
    assert rows > 300
    assert kept > 50
    if way in WAYS:
        assert kept < rows * 0.8


def test_a_row_has_the_whole_message_as_a_column(reader: Callable[..., Read]) -> None:
    rng = random.Random("whole")
    read = reader("record", "is_first_seen")
    for message in (WAYS["spaces"](record_of(rng)) for _ in range(100)):
        for row in read(message):
            assert row.getString(len(COLUMNS)).toString() == message.decode()


@pytest.mark.parametrize("way", [*WAYS])
def test_damaged_messages_give_the_same_rows(way: str, formats: tuple[Read, Read]) -> None:
    rng = random.Random(f"damage {way}")
    rows, kept = assert_equal(
        formats, (damaged(rng, WAYS[way](record_of(rng))) for _ in range(500))
    )
    assert 0 < kept < rows


def test_hostile_messages_give_the_same_rows(formats: tuple[Read, Read]) -> None:
    every = (*broken_messages(), *islice(mutated_messages(21), 1000))
    # Larger messages are always parsed.
    messages = [
        each.value
        for each in every
        if each.schema in ("log_line.v1", "") and len(each.value) < 4 * LONGEST_SEARCHED
    ]
    rows, kept = assert_equal(formats, iter(dict.fromkeys(messages)))
    assert 0 < kept <= rows


@pytest.mark.parametrize("way", [*WAYS])
def test_a_line_without_a_literal_is_not_parsed(way: str, formats: tuple[Read, Read]) -> None:
    _, prefiltered = formats
    line = {
        "event_time": "2024-05-06T07:08:09.123Z",
        "kind": "line",
        "source": "syslog",
        "host": "büro.lab.example",
        "head": '2024-05-06T07:08:09.123Z vmkernel: "cpu3"\\',
        "message": 'nothing \N{GRINNING FACE} "to see" in C:\\logs, é\t/var/log',
        "offset": 17,
        "run_id": LIVE,
        "time_quality": "exact",
    }
    [row] = map(shown, prefiltered(WAYS[way](line)))
    assert row.is_first_seen
    # The same host in the same ten minutes, and another log of it.
    assert prefiltered(WAYS[way](line)) == []
    assert prefiltered(WAYS[way]({**line, "source": "vmware_log"})) == []
    # The next ten minutes, then a time before.
    later = {**line, "event_time": "2024-05-06T07:10:00Z"}
    [row] = map(shown, prefiltered(WAYS[way](later)))
    assert row.is_first_seen
    assert prefiltered(WAYS[way](line)) == []
    # A message with a literal is parsed, but its host is marked already.
    [row] = map(shown, prefiltered(WAYS[way]({**later, "message": f"x{literals()[0]}"})))
    assert not row.is_first_seen
    # Too long to be searched: Flink counts it.
    assert prefiltered(WAYS[way]({**later, "message": "x" * (LONGEST_SEARCHED + 1)})) != []
