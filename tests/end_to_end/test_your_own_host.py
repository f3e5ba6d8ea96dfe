"""The steps of "Your own host" in README, with a real Fluent Bit and a simulated host."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stunwatch.local.trial import free_ports
from tests.documentation.written import ROOT, Written, written
from tests.end_to_end.made import stamp
from tests.pipeline import STUNWATCH, Pipeline

pytestmark = pytest.mark.skipif(
    shutil.which("fluent-bit") is None, reason="There is no fluent-bit on the PATH."
)

README = ROOT / "README.md"
HOST = "esx91.lab.example"
VM = "myvm"


def steps() -> list[Written]:
    """Return the commands of the section, in order."""
    section = README.read_text().partition("\n## Your own host\n")[2].partition("\n## ")[0]
    return [each for each in written(README) if each.kind != "quoted" and each.line in section]


@contextmanager
def fluent_bit(pipeline: Pipeline, home: Path) -> Iterator[int]:
    """Start Fluent Bit and the receiver with README's commands on a free port; yield the port."""
    [shipper] = [each for each in steps() if each.words[0] == "fluent-bit"]
    [receiver] = [each for each in steps() if each.words == ("stunwatch", "receive")]
    assert dict(receiver.environment)["STUNWATCH_SYSLOG_TCP_PORT"] == "1514"
    names = ("UDP_PORT", "TCP_PORT", "COUNTED_PORT", "LINES_PORT")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    environment = (
        os.environ
        | dict(receiver.environment)
        | {f"STUNWATCH_SYSLOG_{name}": str(port) for name, port in ports.items()}
        | pipeline.for_fluent_bit
        | {
            "STUNWATCH_HOME": str(home),
            "STUNWATCH_VMWARE_LOG_PATH": str(home / "vmfs/volumes/*/*/vmware*.log"),
        }
    )
    log = (home / "fluent-bit.log").open("wb")
    process = subprocess.Popen(shipper.words, cwd=ROOT, env=environment, stdout=log, stderr=log)
    beside = subprocess.Popen(
        [STUNWATCH, *receiver.words[1:]], cwd=ROOT, env=environment, stdout=log, stderr=log
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            with closing(socket.socket()) as each:
                if not each.connect_ex(("127.0.0.1", ports["TCP_PORT"])):
                    break
            assert process.poll() is None, (home / "fluent-bit.log").read_text()
            assert time.monotonic() < deadline, "Fluent Bit did not start"
            time.sleep(0.1)
        yield ports["TCP_PORT"]
    finally:
        for each in (beside, process):
            each.send_signal(signal.SIGTERM)
            each.wait(timeout=60)


def run(pipeline: Pipeline, step: Written) -> str:
    done = subprocess.run(
        [STUNWATCH, *step.words[1:]],
        env=pipeline.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_steps_of_the_readme_lead_to_the_first_stun(pipeline: Pipeline, tmp_path: Path) -> None:
    asked = [each for each in steps() if each.words[:2] == ("stunwatch", "sql")]
    lines = next(each for each in asked if "FROM log_lines" in each.line)
    stuns = next(each for each in asked if "longest_stuns" in each.line)
    with fluent_bit(pipeline, tmp_path) as port:
        now = datetime.now(UTC)
        says = [
            # A host's line, then a VM's log line sent by syslog.
            f"<14>{stamp(now)[:-4]}Z {HOST} mark: hello stunwatch",
            f"<14>{stamp(now)[:-4]}Z {HOST} {VM}[2104567]: In(05) vcpu-0 -"
            " Checkpoint_Unstun: vm stopped for 91919 us",
        ]
        with socket.create_connection(("127.0.0.1", port)) as host:
            host.sendall("".join(f"{each}\n" for each in says).encode())
        # A VM's log on a mounted datastore.
        log = tmp_path / "vmfs/volumes/ds-own/web91/vmware.log"
        log.parent.mkdir(parents=True)
        later = now + timedelta(seconds=1)
        log.write_text(
            f"{stamp(later)[:-4]}Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 92929 us\n"
        )
        pipeline.wait_for("SELECT count() FROM stuns WHERE duration_us IN (91919, 92929)", 2, 90)
    assert HOST in run(pipeline, lines)
    assert f"vm={VM}" in stuns.words
    assert "91919" in run(pipeline, stuns)
