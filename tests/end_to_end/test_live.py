"""Records on the raw topics become rows as they arrive."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from stunwatch.ingest.records import LineRecords, Origin, Record, generation_of
from tests.pipeline import Pipeline


def vmware_log(vm: str) -> LineRecords:
    origin = Origin(
        run_id="live",
        source="vmware_log",
        host="esx07.lab.example",
        vm=vm,
        datastore="ds-live",
        file=f"/vmfs/volumes/ds-live/{vm}/vmware.log",
        generation=generation_of(vm.encode()),
    )
    return LineRecords(origin, written_at=datetime.now(UTC))


_ENDS: dict[str | None, int] = {}
"""The written bytes of each VM's log: a tailed file has no gaps."""


def live(maker: LineRecords, message: str, moment: datetime) -> Record:
    stamp = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"
    line = f"{stamp} In(05) vcpu-0 - {message}".encode()
    place = _ENDS.get(maker.origin.vm, 0)
    _ENDS[maker.origin.vm] = place + len(line) + 1
    record = maker.make(line, stamp, offset=place, line_bytes=len(line) + 1)
    assert "reason" not in record
    return record


def test_a_live_stun_with_its_second_line_is_one_row(pipeline: Pipeline) -> None:
    maker, now = vmware_log("live01"), datetime.now(UTC)
    pipeline.ship("esxi.vmware_log", live(maker, "Checkpoint_Unstun: vm stopped for 48211 us", now))
    pipeline.wait_for("SELECT count() FROM stuns WHERE vm = 'live01'", 1)
    later = now + timedelta(milliseconds=30)
    pipeline.ship("esxi.vmware_log", live(maker, "CPT: vm was stunned for 77390 us", later))
    pipeline.wait_for("SELECT any(reported_us) FROM stuns WHERE vm = 'live01'", 77390)
    assert pipeline.one("SELECT count() FROM stuns WHERE vm = 'live01'") == 1


def test_a_stun_from_mode_changes_is_written_after_a_pause(pipeline: Pipeline) -> None:
    maker, now = vmware_log("live02"), datetime.now(UTC)
    for after_ms, message in (
        (0, "CPT current = 1, requesting 2"),
        (900, "CPT current = 2, requesting 6"),
    ):
        moment = now + timedelta(milliseconds=after_ms)
        pipeline.ship("esxi.vmware_log", live(maker, message, moment))
    pipeline.wait_for("SELECT count() FROM stuns WHERE vm = 'live02'", 1)
    assert pipeline.one("SELECT duration_us FROM stuns WHERE vm = 'live02'") == 900_000


def test_a_message_that_violates_its_schema_blocks_nothing(pipeline: Pipeline) -> None:
    record = live(vmware_log("live03"), "PowerOn", datetime.now(UTC))
    no_time = {name: value for name, value in record.items() if name != "event_time"}
    pipeline.produce(
        "esxi.vmware_log",
        b"{ this is no JSON",
        orjson.dumps({**record, "offset": "far"}),
        orjson.dumps(no_time),
        orjson.dumps({**record, "source": "gremlin"}),
        orjson.dumps(record),
        key="ds-live/live03",
    )
    pipeline.wait_for("SELECT count() FROM log_lines WHERE vm = 'live03'", 1)
    pipeline.wait_for(
        "SELECT count() FROM rejected_lines WHERE startsWith(file, 'esxi.vmware_log/')", 4
    )
    reasons = {
        reason
        for (reason,) in pipeline.rows(
            "SELECT reason FROM rejected_lines WHERE startsWith(file, 'esxi.vmware_log/')"
        )
    }
    assert reasons == {
        "not a JSON object",
        "offset is not an integer",
        "event_time is not a UTC time",
        "source is neither syslog nor vmware_log",
    }


def test_an_investigation_runs_by_its_name(pipeline: Pipeline) -> None:
    # tests/investigations runs all of them.
    pipeline.run("sql", "longest_stuns", "--param=most=1", "--format", "JSONEachRow")


def test_sql_prints_rows_and_nothing_else(pipeline: Pipeline) -> None:
    done = pipeline.run("sql", "SELECT 1 AS one, 'a' AS letter", "--format", "JSONEachRow")
    assert orjson.loads(done.stdout) == {"one": 1, "letter": "a"}
    assert not done.stderr


def test_an_invalid_query_is_reported_in_one_sentence(pipeline: Pipeline) -> None:
    for words in (["SELECT nothing_such FROM stuns"], ["no_such_investigation"]):
        done = pipeline.run("sql", *words, code=2)
        assert not done.stdout
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO stuns_stored (vm) VALUES ('x')",
        "DROP TABLE stuns_stored",
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1/', 'LineAsString')",
        "SELECT * FROM system.users",
    ],
)
def test_the_reader_may_only_read(pipeline: Pipeline, sql: str) -> None:
    pipeline.run("sql", sql, code=2)


def test_watch_shows_an_event(pipeline: Pipeline) -> None:
    watching = pipeline.start("watch", "--most", "1", "--json")
    try:
        deadline = time.monotonic() + 30
        number = 0
        # The consumer group needs time to join: earlier messages are not shown.
        while watching.poll() is None and time.monotonic() < deadline:
            number += 1
            maker, now = vmware_log(f"watched{number}"), datetime.now(UTC)
            pipeline.ship(
                "esxi.vmware_log", live(maker, "Checkpoint_Unstun: vm stopped for 5000 us", now)
            )
            time.sleep(1)
        assert watching.poll() == 0
        assert watching.stdout is not None
        assert orjson.loads(watching.stdout.read())["duration_us"] == 5000
    finally:
        watching.kill()
