"""What an attacker can write into a log stays data, from the line to every output."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from ingest.records import WireRecords
from tests.end_to_end.conftest import STUNWATCH, Pipeline
from tests.end_to_end.made import stamp

HOST = "esx66.lab.example"
DATASTORE = "ds-hostile"
HOSTILE_NAMES = (
    "'; DROP TABLE stuns_stored; --",
    "<img src=x onerror=alert(1)>",
    "${jndi:ldap:x}$(id)`id`%n%s",
    "{{ 7 * 7 }}{% raw %}",
    '=HYPERLINK("x","y")',
    "\x1b[2J\x1b]0;owned\x07red",
    "[bold]markup[red]",
    "Checkpoint_Unstun: vm stopped for 5 us",
)
"""As VMs may be called: SQL, HTML, templates, a spreadsheet's formula, commands to a terminal."""


@pytest.fixture(scope="module")
def named(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A VM of each name, stunned once for as many microseconds as its place in the list."""
    logs = tmp_path_factory.mktemp("hostile")
    for number, name in enumerate(HOSTILE_NAMES, 1):
        log = logs / HOST / "vmfs/volumes" / DATASTORE / name / "vmware.log"
        log.parent.mkdir(parents=True)
        log.write_text(
            f"2024-06-01T02:00:{number:02}.000Z In(05) vcpu-0"
            f" - Checkpoint_Unstun: vm stopped for {number} us\n"
        )
    pipeline.run("replay", logs)
    yield pipeline


def test_a_name_is_the_same_in_every_view(named: Pipeline) -> None:
    wanted = list(enumerate(HOSTILE_NAMES, 1))
    of_this = f"WHERE datastore = '{DATASTORE}'"
    assert named.rows(f"SELECT duration_us, vm FROM stuns {of_this} ORDER BY 1") == wanted
    assert {vm for (vm,) in named.rows(f"SELECT vm FROM log_lines {of_this}")} == {*HOSTILE_NAMES}


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_parameter_is_a_value_and_no_sql(named: Pipeline, name: str) -> None:
    words = ("sql", "longest_stuns", "--param", f"vm={name}", "--format", "JSONEachRow")
    found = [orjson.loads(row) for row in named.run(*words).stdout.splitlines()]
    assert [row["vm"] for row in found] == [name]


def test_a_terminal_obeys_no_name(named: Pipeline) -> None:
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
        pass  # how a terminal tells that its program has ended
    finally:
        os.close(terminal)
    assert shown.wait() == 0
    assert "␛[2J␛]0;owned␇red" in text.decode()
    assert b"\x1b" not in text
    assert "\x1b" not in named.run("watch", "--once", "--history").stdout


def test_a_path_with_markup_is_only_named(named: Pipeline, tmp_path: Path) -> None:
    path = tmp_path / "[bold]no log[red] \x1b[2J.gz"
    path.write_bytes(b"\x1f\x8bno archive")
    done = named.run("replay", path, code=2)
    assert "[bold]no log[red]" in done.stderr.replace("\n", "")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("breaks", ["\n", "\r", "\r\n", "\x0b", "\x85", "\u2028"])
def test_a_line_inside_a_message_is_no_line(pipeline: Pipeline, breaks: str) -> None:
    """As Fluent Bit hands it on, where messages come with their length.

    With a line feed in it, it has no head that is known: it is kept whole as a rejected line.
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


def test_a_host_that_is_not_the_sender_is_told_by_its_sender(pipeline: Pipeline) -> None:
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
