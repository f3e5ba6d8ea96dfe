"""A line of several megabytes becomes a record or a rejection that Kafka accepts."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
import yaml

from stunwatch.ingest.records import LineRecords, Origin, WireRecords
from stunwatch.ingest.replay.lines import batches

ROOT = Path(__file__).parents[2]
NOW = datetime(2024, 6, 30, 12, tzinfo=UTC)
HEADS = (
    b"2024-05-06T07:08:09.123Z In(05) vmx - ",
    b"<181>2024-05-06T07:08:09.123Z esx01 vmkernel: cpu9:33012)",
    b"no head ",
)
# Characters that JSON escapes with two or six bytes, two bytes of UTF-8, and invalid UTF-8.
FILLINGS = (b"a", b'"', b"\\", b"\x01", b"\x1b", b"\xc3\xa9", b"\xff", b" ", b"[", b"1")
LONG = 2_000_000


def kafka_takes() -> int:
    """Return the smallest message limit of the topics, the broker and both producers."""
    topics = yaml.safe_load((ROOT / "infra/kafka/topics.yaml").read_text())
    paths = (
        "infra/kafka/server.properties",
        "stunwatch/shipping.py",
        "ingest/fluent-bit.yaml",
    )
    text = "\n".join((ROOT / path).read_text() for path in paths)
    limits = re.findall(r"message\.max\.bytes\W+([\d_]+)", text)
    assert len(limits) == 3
    of_topics = re.findall(r"'max\.message\.bytes': (\d+)", str(topics))
    assert of_topics
    return min(int(each) for each in (*limits, *of_topics))


@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("head", HEADS)
def test_the_record_of_a_line_of_megabytes_fits_kafkas_limits(head: bytes, filling: bytes) -> None:
    line = head + filling * (LONG // len(filling))
    made = [WireRecords().make(line, "192.0.2.7", NOW)]
    for source in ("syslog", "vmware_log"):
        origin = Origin(run_id="live", source=source, file="/a/b", generation="c", host="esx01")
        made.append(LineRecords(origin, written_at=NOW).make(line, "2024-06-30T12:00:00Z"))
    for record in made:
        assert record["truncated"]
        assert len(orjson.dumps(record)) < kafka_takes() - 1024


def test_memory_for_a_long_line_is_bounded() -> None:
    blocks = [b"x" * 65_536] * 64 + [b"\nnext\n"]
    [[(first, _, first_bytes), (second, offset, _)]] = batches(blocks, 262_144)
    assert (len(first), first_bytes) == (262_145, 64 * 65_536 + 1)
    assert (second, offset) == (b"next", first_bytes)
