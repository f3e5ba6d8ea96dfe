"""Missing, truncated, late or doubtful data are reported as events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from stunwatch.ingest.records import (
    MAX_LINE_BYTES,
    LineRecords,
    Origin,
    Record,
    kafka_key,
    rejection,
)
from tests.pipeline import Pipeline

NOON = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=6)


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def line(host: str, written: datetime, arrived: datetime, message: str, **origin: Any) -> Record:
    """Return a live record of a host's vmkernel; from the network, unless a file is given."""
    maker = LineRecords(Origin(run_id="live", host=host, **origin), written_at=written)
    text = f"<181>{stamp(written)} {host} vmkernel: cpu3:2097152){message}".encode()
    record = maker.make(text, stamp(arrived), offset=0, line_bytes=len(text) + 1)
    assert "reason" not in record
    return record


def events(pipeline: Pipeline, host: str, many: int = 0) -> list[dict[str, Any]]:
    """Return the rows of one host, sorted by kind and time. Waits until there are `many`.

    A view of events reads a block after that of the lines, so a line may be there before its event.
    """
    if many:
        pipeline.wait_for(f"SELECT count() FROM quality_events WHERE host = '{host}'", many)
    done = pipeline.run(
        "sql",
        f"SELECT * FROM quality_events WHERE host = '{host}' ORDER BY kind, started_at",
        "--format",
        "JSONEachRow",
    )
    return [orjson.loads(each) for each in done.stdout.splitlines()]


def stored(pipeline: Pipeline, host: str, lines: int) -> None:
    pipeline.wait_for(f"SELECT count() FROM log_lines WHERE host = '{host}'", lines)


def test_a_truncated_line_counts_once_even_if_sent_repeatedly(pipeline: Pipeline) -> None:
    host = "cut01.quality.example"
    record = line(host, NOON, NOON, "x" * (MAX_LINE_BYTES + 7))
    assert record["truncated"]
    pipeline.ship("esxi.syslog", record, record, line(host, NOON, NOON, "whole"))
    stored(pipeline, host, 2)
    [event, unsearched] = events(pipeline, host, 2)
    assert unsearched["kind"] == "unsearched"  # detectors do not read a line of this length
    assert (event["kind"], event["source"], event["run_id"]) == ("truncated", "syslog", "live")
    assert int(event["count"]) == 1
    replayed = {**record, "run_id": "a-replay", "received_at": stamp(NOON + timedelta(hours=1))}
    pipeline.ship("esxi.syslog", replayed, line(host, NOON, NOON, "behind the replay"))
    stored(pipeline, host, 3)
    assert events(pipeline, host) == [event, unsearched]


def test_a_late_line_is_reported_once(pipeline: Pipeline) -> None:
    host = "late01.quality.example"
    late = line(host, NOON - timedelta(minutes=20), NOON, "I come late")
    slow = line(host, NOON - timedelta(minutes=5), NOON, "I am slow")
    in_time = [line(host, NOON, NOON, f"I am in time {number}") for number in range(20)]
    pipeline.ship("esxi.syslog", late, late, slow, *in_time)
    stored(pipeline, host, 22)
    [event] = events(pipeline, host, 1)
    assert (event["kind"], int(event["count"])) == ("late", 1)
    assert event["evidence"] == [late["head"] + late["message"]]
    assert event["started_at"].startswith(f"{NOON - timedelta(minutes=20):%Y-%m-%d %H:%M:%S}")


def test_replayed_lines_are_never_reported_as_late(pipeline: Pipeline) -> None:
    host = "history01.quality.example"
    record = line(host, NOON - timedelta(days=300), NOON, "an old incident")
    pipeline.ship("esxi.backfill", {**record, "run_id": "a-replay"})
    stored(pipeline, host, 1)
    assert not events(pipeline, host)


def test_fast_and_slow_clocks_are_reported(pipeline: Pipeline) -> None:
    fast, slow = "fast01.quality.example", "slow01.quality.example"
    pipeline.ship(
        "esxi.syslog",
        line(fast, NOON + timedelta(seconds=90), NOON, "I am ahead"),
        line(fast, NOON + timedelta(seconds=4), NOON, "I am nearly right"),
        *(
            line(slow, moment - timedelta(hours=1), moment, f"an hour behind {number}")
            for number in range(5)
            for moment in [NOON + timedelta(seconds=number)]
        ),
    )
    stored(pipeline, fast, 2)
    stored(pipeline, slow, 5)
    [event] = events(pipeline, fast, 1)
    assert (event["kind"], int(event["count"])) == ("clock_skew", 1)
    assert "I am ahead" in event["evidence"][0]
    [event] = events(pipeline, slow, 1)
    assert (event["kind"], int(event["count"])) == ("clock_skew", 5)


def test_missing_bytes_of_a_file_are_reported(pipeline: Pipeline) -> None:
    host = "gap01.quality.example"
    file = {"file": "/var/log/vmkernel.log", "generation": "00000000000006a9"}
    first = line(host, NOON, NOON, "first", **file)
    third = line(host, NOON + timedelta(seconds=2), NOON, "third", **file)
    pipeline.ship("esxi.syslog", first, {**third, "offset": first["line_bytes"] + 321})
    stored(pipeline, host, 2)
    [event] = events(pipeline, host, 1)
    assert (event["kind"], int(event["count"])) == ("gap", 321)
    assert event["evidence"][0].startswith("/var/log/vmkernel.log: bytes ")
    # The audit after this module finds the same gap.
    pipeline.known_differences |= {
        each for each in pipeline.differences() if each[:2] == ("gap", "/var/log/vmkernel.log")
    }


def test_a_line_with_an_unknown_format_is_reported(pipeline: Pipeline) -> None:
    host = "rejected01.quality.example"
    rejected = rejection(
        b"no head that anybody knows",
        "unknown line format",
        stamp(NOON),
        Origin(run_id="live", host=host),
        offset=0,
        line_bytes=27,
    )
    pipeline.produce("esxi.rejected", orjson.dumps(rejected), key=kafka_key(rejected))
    pipeline.wait_for(f"SELECT count() FROM rejected_lines WHERE host = '{host}'", 1)
    [event] = events(pipeline, host, 1)
    assert (event["kind"], int(event["count"])) == ("rejected", 1)
    assert event["evidence"] == ["no head that anybody knows"]


def test_a_source_that_stops_while_others_continue_is_reported(pipeline: Pipeline) -> None:
    silent, back, heard = (f"{name}01.quality.example" for name in ("silent", "back", "heard"))
    for minute in range(0, 90, 5):
        moment = NOON + timedelta(minutes=minute)
        hosts = {heard}
        if minute < 30:
            hosts |= {silent, back}
        if minute >= 60:
            hosts |= {back}
        pipeline.ship(
            "esxi.syslog", *(line(host, moment, moment, f"minute {minute}") for host in hosts)
        )
    stored(pipeline, heard, 18)
    stored(pipeline, back, 12)
    stored(pipeline, silent, 6)
    [event] = events(pipeline, silent, 1)
    assert (event["kind"], event["ended_at"]) == ("silent_source", None)
    assert event["started_at"].startswith(f"{NOON + timedelta(minutes=25):%Y-%m-%d %H:%M:%S}")
    [event] = [each for each in events(pipeline, back) if each["ended_at"]]
    assert event["kind"] == "silent_source"
    assert event["ended_at"].startswith(f"{NOON + timedelta(minutes=60):%Y-%m-%d %H:%M:%S}")
    assert not [each for each in events(pipeline, heard) if each["ended_at"]]


def test_losses_in_a_hosts_own_log_are_reported(pipeline: Pipeline) -> None:
    host = "lost01.quality.example"
    report = "ALERT: vmsyslog logger 192.0.2.10:514 lost 17 log messages"
    pipeline.ship("esxi.syslog", line(host, NOON, NOON, report))
    [event] = events(pipeline, host, 1)
    assert (event["kind"], int(event["count"])) == ("gap", 17)
    assert event["evidence"][0].endswith(report)
