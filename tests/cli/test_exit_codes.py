"""Every command produces the exit codes that docs/commands.md documents for it."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stunwatch import replaying
from stunwatch.alerts import sending
from stunwatch.audit.events import Comparison
from stunwatch.audit.files import StoredFile
from stunwatch.cli import audit, demo, replay
from stunwatch.local import health
from stunwatch.local.health import ComponentHealth, Health
from tests.cli.stand_ins import ESXCLI, LOG, no_kafka
from tests.pipeline import in_this_process
from tests.test_conventions import ROOT

# | 1 | Something differs | `audit` |
_ROW = re.compile(r"^\| (?P<code>\d+) \| .+ \| (?P<commands>.+) \|$", re.MULTILINE)

DOCUMENTED = [
    (int(row["code"]), command.strip("`"))
    for row in _ROW.finditer((ROOT / "docs/commands.md").read_text())
    for command in row["commands"].split(", ")
]

Home = Path
Patch = pytest.MonkeyPatch


def ran(home: Home, *words: str) -> int:
    return in_this_process(list(words), {"STUNWATCH_HOME": str(home)}).returncode


def done(home: Home, _: Patch) -> int:
    return ran(home, "--version")


def lines_missing(home: Home, patched: Patch) -> int:
    outcome = replaying.Outcome("run", read=2, stored=1, missing={"a.log": 1})
    patched.setattr(replay, "run", lambda *_: outcome)
    patched.setattr(replay, "events_of", lambda *_: None)
    return ran(home, "replay", str(LOG))


def no_log(home: Home, _: Patch) -> int:
    (home / "notes.txt").write_text("a shopping list\n")
    return ran(home, "triage", str(home / "notes.txt"))


def demo_incomplete(home: Home, patched: Patch) -> int:
    outcome = replaying.Outcome("run", read=2, stored=1, missing={"a.log": 1})
    patched.setattr(replaying, "run", lambda *_: outcome)
    patched.setattr(demo, "_up", lambda *_, **__: None)
    patched.setattr(demo, "_fetch_superset", lambda _: None)
    patched.setenv("STUNWATCH_TRIAL", "1")
    return ran(home, "demo")


def file_not_used(home: Home, patched: Patch) -> int:
    no_kafka(patched)
    (home / "notes.txt").write_text("nothing that esxcli prints\n")
    files = [str(home / "notes.txt"), str(ESXCLI)]
    return ran(home, "inventory", "load", *files, "--host", "esx01")


def member_not_read(home: Home, _: Patch) -> int:
    line = b"2024-05-06T07:08:09.123Z cpu1:1)ScsiDeviceIO: 1: x\n"
    (home / "vmkernel.log.gz").write_bytes(gzip.compress(line)[:-9])
    return ran(home, "anonymise", str(home), "--output", str(home / "copy.tgz"))


def differs(home: Home, patched: Patch) -> int:
    gap = StoredFile("0" * 16, "a.log", "syslog", "", "", "", 1, ((0, 1),))
    found = audit.Findings(events={"stuns": Comparison(), "migrations": Comparison()}, gaps=[gap])
    patched.setattr(audit, "examine", lambda *_: found)
    patched.setattr(audit, "as_user", lambda *_: None)
    return ran(home, "audit")


def not_accepted(home: Home, patched: Patch) -> int:
    (home / "alerts.yaml").write_text("receivers:\n  - {name: hook, url: 'json://127.0.0.1:9/x'}\n")
    patched.setenv("STUNWATCH_ALERTS", str(home / "alerts.yaml"))
    patched.setattr(sending, "send", lambda *_: "connection refused")
    return ran(home, "alerts", "test")


def required_missing(home: Home, patched: Patch) -> int:
    patched.setenv("PATH", str(home))
    patched.setenv("JAVA_HOME", str(home))
    return ran(home, "doctor")


def wrong(home: Home, _: Patch) -> int:
    assert ran(home, "sql", "no_such_investigation") == 2
    assert ran(home, "nothing") == 2
    assert ran(home, "replay") == 2
    assert ran(home, "status", "--format", "xml") == 2
    # A file that the user cannot read is a user error, not a traceback.
    (home / "secrets").mkdir(exist_ok=True)
    (home / "secrets/analyst").mkdir(exist_ok=True)
    return ran(home, "incident", "list")


def unhealthy(home: Home, patched: Patch) -> int:
    sick = ComponentHealth("kafka", False, "running", 7, 1, 1, "it does not answer")
    patched.setattr(health, "examine", lambda _: Health(None, [sick], []))
    patched.setattr(health, "detector_failures", lambda _: [])
    return ran(home, "status")


def nothing_runs(home: Home, _: Patch) -> int:
    return ran(home, "status")


def interrupted(home: Home, patched: Patch) -> int:
    (home / "logs").mkdir()
    (home / "logs/kafka.log").write_text("started\n")
    patched.setenv("STUNWATCH_HOME", str(home))
    # A shell starts a background job with SIGINT ignored, and its children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    following = subprocess.Popen(
        [sys.executable, "-m", "stunwatch.cli", "logs", "kafka", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert following.stdout.readline() == "started\n"
    following.send_signal(signal.SIGINT)
    _, said = following.communicate(timeout=60)
    assert "Traceback" not in said
    return following.returncode


PRODUCED: dict[tuple[int, str], Callable[[Home, Patch], int]] = {
    (0, "all"): done,
    (1, "replay"): lines_missing,
    (1, "triage"): no_log,
    (1, "demo"): demo_incomplete,
    (1, "inventory load"): file_not_used,
    (1, "anonymise"): member_not_read,
    (1, "audit"): differs,
    (1, "alerts test"): not_accepted,
    (1, "doctor"): required_missing,
    (2, "all"): wrong,
    (3, "status"): unhealthy,
    (4, "status"): nothing_runs,
    (130, "all"): interrupted,
}


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda each: f"{each[0]} {each[1]}")
def test_each_documented_exit_code_is_produced(
    documented: tuple[int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PRODUCED[documented](tmp_path, monkeypatch) == documented[0]


def test_every_exit_code_is_documented() -> None:
    assert [*PRODUCED] == DOCUMENTED
    folder = ROOT / "stunwatch/cli"
    constants: dict[str, Any] = {}
    for path in folder.glob("*.py"):
        constants |= dict(re.findall(r"^(EXIT_\w+) = (\d+)$", path.read_text(), re.MULTILINE))
    assert {int(code) for code in constants.values()} | {0} == {code for code, _ in DOCUMENTED}


def test_an_error_message_goes_to_standard_error(tmp_path: Path) -> None:
    done = in_this_process(["incident", "list"], {"STUNWATCH_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stunwatch: No pipeline has been started here:")
