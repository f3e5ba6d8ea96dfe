"""Text that an attacker writes to a log stays data, from the line to every output."""

from __future__ import annotations

import os
import pty
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from stunwatch.ingest.records import WireRecords
from tests.end_to_end.conftest import Replayed
from tests.end_to_end.logs import HOSTILE_DATASTORE as DATASTORE
from tests.end_to_end.logs import HOSTILE_HOST as HOST
from tests.end_to_end.logs import HOSTILE_NAMES
from tests.end_to_end.made import stamp
from tests.pipeline import STUNWATCH, Pipeline


@pytest.fixture
def named(pipeline: Pipeline, replayed: Replayed) -> Pipeline:
    """The pipeline, with one VM per hostile name."""
    return pipeline


def test_a_hostile_name_is_unchanged_in_every_view(named: Pipeline) -> None:
    wanted = list(enumerate(HOSTILE_NAMES, 1))
    of_this = f"WHERE datastore = '{DATASTORE}'"
    assert named.rows(f"SELECT duration_us, vm FROM stuns {of_this} ORDER BY 1") == wanted
    assert {vm for (vm,) in named.rows(f"SELECT vm FROM log_lines {of_this}")} == {*HOSTILE_NAMES}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_parameter_is_a_value_not_sql(named: Pipeline, name: str) -> None:
    words = ("sql", "longest_stuns", "--param", f"vm={name}", "--format", "JSONEachRow")
    found = [orjson.loads(row) for row in named.run(*words).stdout.splitlines()]
    assert [row["vm"] for row in found] == [name]


def test_names_send_no_commands_to_a_terminal(named: Pipeline) -> None:
    query = f"SELECT vm FROM stuns WHERE datastore = '{DATASTORE}'"
    terminal, end = pty.openpty()
    shown = subprocess.Popen(
        [STUNWATCH, "sql", query], env=named.environment, stdout=end, stderr=end
    )
    os.close(end)
    text = b""
    try:
        while piece := os.read(terminal, 1 << 16):
            text += piece
    except OSError:
        pass  # the error when the program of a pseudo-terminal has ended
    finally:
        os.close(terminal)
    assert shown.wait() == 0
    assert "␛[2J␛]0;owned␇red" in text.decode()
    assert b"\x1b" not in text
    assert "\x1b" not in named.run("watch", "--once", "--history").stdout


def test_a_path_with_markup_is_shown_as_text(named: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "[bold]no log[red] \x1b[2J.gz"
    path.write_bytes(b"\x1f\x8bno archive")
    done = named.run("replay", path, code=2)
    assert "[bold]no log[red]" in done.stderr.replace("\n", "")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("breaks", ["\n", "\r", "\r\n", "\x0b", "\x85", "\u2028"])
def test_a_line_inside_a_message_is_not_a_separate_line(pipeline: Pipeline, breaks: str) -> None:
    """As sent by Fluent Bit, whose messages have a length prefix.

    A line feed makes the head unknown: the message is stored whole as a rejected line.
    """
    vm, now = f"broken{breaks.encode().hex()}", datetime.now(UTC)
    maker = WireRecords()
    first, second = (
        f"<14>{stamp(at)[:-4]}Z {HOST} {vm}[2104567]: In(05) vcpu-0 - "
        for at in (now, now + timedelta(milliseconds=200))
    )
    lie = "Checkpoint_Unstun: vm stopped for 99000000 us"
    for message in (
        f"{first}Guest: hello{breaks}{lie}{breaks}{first}{lie}",
        f"{second}Checkpoint_Unstun: vm stopped for 1234 us",
    ):
        record = maker.make(message.encode(), "192.0.2.66", now)
        pipeline.ship("esxi.rejected" if "reason" in record else "esxi.vmware_log", record)
    pipeline.wait_for(
        f"SELECT (SELECT count() FROM log_lines WHERE vm = '{vm}')"
        f" + (SELECT count() FROM rejected_lines WHERE position(line, ' {vm}[') > 0)",
        2,
    )
    pipeline.wait_for(f"SELECT groupArray(duration_us) FROM stuns WHERE vm = '{vm}'", [1234])


def test_senders_that_use_the_name_of_another_host_are_reported(pipeline: Pipeline) -> None:
    maker, now = WireRecords(), datetime.now(UTC)
    for host, peer in (("esx67", "192.0.2.67"), ("esx67", "192.0.2.66"), ("esx68", "192.0.2.66")):
        line = f"<14>{stamp(now)[:-4]}Z {host} vobd: told by {peer}"
        pipeline.ship("esxi.syslog", maker.make(line.encode(), peer, now))
    asked = "SELECT uniqExact(host, peer) FROM log_lines WHERE host IN ('esx67', 'esx68')"
    pipeline.wait_for(asked, 3)
    answer = pipeline.run(
        *("sql", "names_of_several_senders", "-p", "host=esx67", "--format", "JSONEachRow")
    )
    found = {row["whose"]: row["who"] for row in map(orjson.loads, answer.stdout.splitlines())}
    assert found["esx67"] == ["192.0.2.66", "192.0.2.67"]
    marked = "SELECT host, evidence FROM quality_events WHERE kind = 'borrowed_name'"
    assert ("esx67", ["192.0.2.66 sent in its name; 192.0.2.67 does, and in no other"]) in (
        pipeline.rows(marked)
    )
    assert pipeline.one("SELECT count() FROM blind_spots_now WHERE kind = 'borrowed_name'") > 0
    assert {"esx67", "esx68"} <= {*found["192.0.2.66"]}
