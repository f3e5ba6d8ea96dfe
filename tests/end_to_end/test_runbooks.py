"""The commands of docs/runbooks, run from the pages while lines arrive: no line is lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent

import pytest

from stunwatch.ingest.records import LineRecords, Origin, Record, generation_of
from stunwatch.jobs.options import STATE
from stunwatch.settings import ROOT, load_settings
from tests.end_to_end.test_faults import kill
from tests.pipeline import Pipeline, settings_in

pytestmark = [pytest.mark.release, pytest.mark.timeout(590)]

VMS = [f"busy{number:02}" for number in range(20)]
STUN_US = 5000
ANSWERED_S = 90
"""A line is stored, and its stun found, within this time after an upgrade or a restore."""


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced code blocks of a runbook, in order."""
    text = (ROOT / "docs/runbooks" / f"{page}.md").read_text()
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [dedent(block) for _, block in found]


def commands(page: str) -> list[str]:
    """Return the commands of each console block of a runbook."""
    return [
        "\n".join(line.removeprefix("$ ") for line in block.splitlines())
        for block in blocks(page, "console")
    ]


@dataclass
class Checkout(Pipeline):
    """A pipeline that runs from a separate checkout, which a test may change."""

    folder: Path = Path()

    @property
    def environment(self) -> dict[str, str]:
        programs = Path(sys.executable).parent
        return super().environment | {
            "PYTHONPATH": str(self.folder),
            "PATH": f"{programs}:{os.environ['PATH']}",
        }

    def run_block(self, block: str, code: int = 0, **environment: str) -> str:
        """Run a block of a runbook in the checkout; return its output."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=self.folder,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{block}\n{done.stdout}"
        return done.stdout

    def git(self, *words: str) -> None:
        name = ["-c", "user.name=test", "-c", "user.email=test@lab.example"]
        subprocess.run(["git", *name, *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self, name: str) -> None:
        """Commit the current state of the checkout as a version."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", name)
        self.git("tag", name)


class Log:
    """A VM's vmware.log as a collector ships it, without gaps."""

    def __init__(self, vm: str) -> None:
        origin = Origin(
            run_id="live",
            source="vmware_log",
            host="esx09.lab.example",
            vm=vm,
            datastore="ds-busy",
            file=f"/vmfs/volumes/ds-busy/{vm}/vmware.log",
            generation=generation_of(vm.encode()),
        )
        self._maker = LineRecords(origin, written_at=datetime.now(UTC))
        self._end = 0

    def line(self, message: str, at: datetime) -> Record:
        stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
        line = f"{stamp} In(05) vcpu-0 - {message}".encode()
        record = self._maker.make(line, stamp, offset=self._end, line_bytes=len(line) + 1)
        self._end += len(line) + 1
        assert "reason" not in record
        return record


class Traffic(threading.Thread):
    """Ships a line of every VM each second; every second line of a VM is a stun."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self._pipeline = pipeline
        self._logs = [Log(vm) for vm in VMS]
        self._goes = threading.Event()
        self._is_idle = threading.Event()
        self._ends = threading.Event()
        self.lines = self.stuns = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ends.is_set():
                if not self._goes.is_set():
                    self._is_idle.set()
                    time.sleep(0.05)
                    continue
                self._is_idle.clear()
                is_stun = self.lines // len(VMS) % 2 == 1
                told = f"Checkpoint_Unstun: vm stopped for {STUN_US} us" if is_stun else "heard"
                now = datetime.now(UTC)
                records = [log.line(told, now) for log in self._logs]
                self._pipeline.ship("esxi.vmware_log", *records)
                self.lines += len(records)
                self.stuns += len(records) if is_stun else 0
                time.sleep(1)
        except BaseException as error:
            self.failure = error
            self._is_idle.set()

    def go(self) -> None:
        self._goes.set()

    def pause(self) -> None:
        """Return when nothing is in flight."""
        self._goes.clear()
        self._is_idle.clear()
        assert self._is_idle.wait(120)
        if self.failure:
            raise self.failure

    def end(self) -> None:
        self._ends.set()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    folder = tmp_path_factory.mktemp("runbooks")
    copy = folder / "stunwatch"
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, names.split("\0")):
        place = copy / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, place, follow_symlinks=False)
    settings = settings_in(folder / "home", build=load_settings({}).build)
    made = Checkout(settings, folder=copy)
    made.git("init", "--quiet")
    made.commit("old")
    try:
        made.run("up")
        yield made
    finally:
        made.run("down")


@pytest.fixture
def traffic(checkout: Checkout, request: pytest.FixtureRequest) -> Iterator[Traffic]:
    """Shared by all tests: the logs of its VMs continue."""
    found: Traffic | None = getattr(request.module, "_traffic", None)
    if found is None:
        found = Traffic(checkout)
        found.start()
        request.module._traffic = found  # type: ignore[attr-defined]
    found.go()
    yield found
    found.pause()


def nothing_is_lost(pipeline: Pipeline, traffic: Traffic) -> None:
    """Check that every sent line is one row and every stun one event, and that the audit agrees."""
    traffic.pause()
    of_traffic = "WHERE startsWith(vm, 'busy')"
    pipeline.wait_for(f"SELECT count() FROM log_lines {of_traffic}", traffic.lines, ANSWERED_S)
    pipeline.wait_for(f"SELECT count() FROM stuns {of_traffic}", traffic.stuns, ANSWERED_S)
    assert "Nothing differs" in pipeline.run("audit").stdout


def stuns_say(pipeline: Pipeline, detail: str) -> None:
    """Wait for a new stun with a detail that only one version writes."""
    begin = datetime.now(UTC)
    pipeline.wait_for(
        f"SELECT countIf(cause_detail = '{detail}') > 0 FROM stuns"
        f" WHERE startsWith(vm, 'busy') AND ended_at > '{begin:%Y-%m-%d %H:%M:%S}'",
        True,
        ANSWERED_S,
    )


def test_the_job_is_upgraded_and_rolled_back(checkout: Checkout, traffic: Traffic) -> None:
    tracker = checkout.folder / "flink-jobs/detectors/stuns/tracker.py"
    text = tracker.read_text()
    changed = text.replace("cause_detail=told.cause_detail", "cause_detail='told by the new one'")
    assert changed != text
    tracker.write_text(changed)
    checkout.commit("new")
    (checkout.folder / "flink-jobs/jobs/correlate.py").write_text("raise RuntimeError('broken')\n")
    checkout.commit("broken")
    checkout.git("checkout", "--quiet", "old")
    status, take, upgrade, audit, back = commands("upgrade")

    half = Log("halfway")
    now = datetime.now(UTC)
    checkout.ship("esxi.vmware_log", half.line("CPT current = 1, requesting 2", now))
    for block in (status, take):
        checkout.run_block(block, NEW="new")
    assert "The new version runs." in checkout.run_block(upgrade)
    later = now + timedelta(milliseconds=1500)
    checkout.ship("esxi.vmware_log", half.line("CPT current = 2, requesting 6", later))
    stuns_say(checkout, "told by the new one")
    checkout.run_block(audit)
    # The stun started in the state of one version and ended in the other.
    checkout.wait_for(
        "SELECT sum(duration_us) FROM stuns WHERE vm = 'halfway'", 1_500_000, ANSWERED_S
    )

    checkout.run_block(take, NEW="broken")
    said = checkout.run_block(upgrade, code=2)
    assert "The old version continues" in said
    stuns_say(checkout, "told by the new one")

    (checkout.settings.home / "version_before").write_text("old")
    checkout.run_block(back)
    stuns_say(checkout, "")
    savepoints = list((checkout.settings.home / "flink/savepoints").glob("*/savepoint-*/_metadata"))
    assert len(savepoints) == 3
    nothing_is_lost(checkout, traffic)


def test_a_changed_format_of_the_state_loses_and_doubles_nothing(
    checkout: Checkout, traffic: Traffic
) -> None:
    tracker = checkout.folder / "flink-jobs/detectors/stuns/tracker.py"
    options = checkout.folder / "flink-jobs/jobs/options.py"
    for path, old, new in (
        (tracker, r"\bmodes: list\[ModeLine\]", "changes: list[ModeLine]"),
        (tracker, r"state\.modes\b", "state.changes"),
        (options, rf"STATE = {STATE}", f"STATE = {STATE + 1}"),
    ):
        text, count = re.subn(old, new, path.read_text())
        assert count, old
        path.write_text(text)
    halfway = Log("halfway-state")
    now = datetime.now(UTC)
    checkout.ship("esxi.vmware_log", halfway.line("CPT current = 1, requesting 2", now))
    before = checkout.rows("SELECT * FROM incidents WHERE state = 'closed' ORDER BY incident_id")
    said = checkout.run_block("stunwatch upgrade", code=2)
    assert "The format of the live job's state has changed" in said
    checkout.run_block("stunwatch down && stunwatch up")
    later = now + timedelta(milliseconds=1500)
    checkout.ship("esxi.vmware_log", halfway.line("CPT current = 2, requesting 6", later))
    # The stun started in the state of one version and ended in that of the other.
    checkout.wait_for(
        "SELECT sum(duration_us) FROM stuns WHERE vm = 'halfway-state'", 1_500_000, ANSWERED_S
    )
    nothing_is_lost(checkout, traffic)
    after = checkout.rows("SELECT * FROM incidents WHERE state = 'closed' ORDER BY incident_id")
    assert [each for each in after if each in before] == before
    checkout.git("checkout", "--quiet", "--force", "old")
    checkout.run_block("stunwatch down && stunwatch up")
    nothing_is_lost(checkout, traffic)


def test_a_lost_clickhouse_database_is_restored(
    checkout: Checkout, traffic: Traffic, tmp_path: Path
) -> None:
    backup, down, aside, up, restore, audit = commands("backup-and-restore")
    folder = {"BACKUP": str(tmp_path / "backup")}
    checkout.run("change", "add", "--kind", "array", "--title", "before the loss")
    checkout.run_block(backup, **folder)
    assert "is there already" in checkout.run_block("stunwatch backup $BACKUP", code=2, **folder)
    at_backup = checkout.one("SELECT count() FROM log_lines")
    checkout.wait_for(f"SELECT count() > {at_backup} + 100 FROM log_lines", True)
    kill(checkout, "clickhouse")
    shutil.rmtree(checkout.settings.home / "clickhouse" / "store", ignore_errors=True)
    for block in (down, aside, up):
        traffic.pause()
        checkout.run_block(block, **folder)
    traffic.go()
    assert checkout.one("SELECT count() FROM changes") == 0
    assert "Restored" in checkout.run_block(restore, **folder)
    checkout.run_block(audit)
    assert checkout.one("SELECT title FROM changes") == "before the loss"
    nothing_is_lost(checkout, traffic)
    traffic.go()
    # Restoring over existing data changes nothing.
    checkout.run_block(restore, **folder)
    nothing_is_lost(checkout, traffic)


def test_the_commands_that_add_a_column_work(checkout: Checkout, traffic: Traffic) -> None:
    before = checkout.one("SELECT count() FROM stuns")
    for block in blocks("../add-a-column", "diff"):
        patch = checkout.folder / "column.patch"
        patch.write_text(block)
        checkout.git("apply", patch.name)
        patch.unlink()
    generate, upgrade, shown = commands("../add-a-column")
    checkout.run_block(generate)
    checkout.run_block(upgrade)
    checkout.wait_for("SELECT countIf(measured_lines = 1) > 0 FROM stuns", True, ANSWERED_S)
    checkout.run_block(shown)
    assert checkout.one("SELECT countIf(measured_lines IS NULL) FROM stuns") >= before
    nothing_is_lost(checkout, traffic)


@pytest.mark.parametrize("page", ["disk-full", "lag", "silent-source"])
def test_the_commands_of_a_runbook_run(checkout: Checkout, page: str) -> None:
    for block in commands(page):
        if "stunwatch upgrade" not in block:  # tested above
            checkout.run_block(block)
