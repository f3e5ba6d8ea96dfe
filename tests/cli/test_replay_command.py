"""`replay` reports what it found, files that are not logs, and after Ctrl-C what is stored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stunwatch import replaying
from stunwatch.cli import replay
from stunwatch.cli.demo import INCIDENT
from stunwatch.errors import UserError
from stunwatch.ingest.replay import Options, Reading, plan
from stunwatch.ingest.times import UptimeClock
from stunwatch.replaying import Interrupted, Outcome
from tests.pipeline import in_this_process

BUNDLED = next(INCIDENT.rglob("vmware.log"))
FOUND = {"incidents": 1, "stuns": 12, "countdowns": 2}

Ran = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Run `replay` as if a pipeline had stored all lines that it read."""

    def run(settings: Any, what: Any, *_: Any) -> Outcome:
        count = 10 * len(what.files)
        return Outcome("run-1", read=count, stored=count - 1, rejected=1, seconds=2.0)

    monkeypatch.setattr(replay, "run", run)
    monkeypatch.setattr(replay, "events_of", lambda *_: FOUND)

    def ran(*words: str | Path) -> tuple[int, str, str]:
        done = in_this_process(
            ["replay", *map(str, words)], {"STUNWATCH_HOME": str(tmp_path / "home")}
        )
        return done.returncode, done.stdout, done.stderr

    return ran


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_summary_lists_what_was_found_and_the_commands(ran: Ran) -> None:
    code, out, said = ran(BUNDLED)
    assert (code, out) == (0, "")
    assert "read 10 lines = stored 9 + rejected 1" in said
    for words in ("12 stuns", "stunwatch sql longest_stuns", "1 incident ", "incident list --all"):
        assert words in said
    assert "Rejected 1 lines. Reasons: stunwatch sql rejected_by_reason" in said


def test_json_is_one_document_on_standard_output(ran: Ran) -> None:
    code, out, said = ran(BUNDLED, "--format", "json")
    assert code == 0
    assert json.loads(out)["found"] == FOUND
    assert json.loads(out)["lines"] == {"read": 10, "stored": 9, "rejected": 1, "missing": {}}
    assert "Found:" not in said


@pytest.mark.parametrize(
    ("name", "content", "note"),
    [
        ("photo.jpg", b"\xff\xd8\xff\xe0" + bytes(range(256)) * 40, "is not a log"),
        ("notes.txt", b"Call the vendor on Monday.\n" * 9, "not recognised as an ESXi log"),
        ("vmkernel.log", b"", "the file is empty"),
    ],
)
def test_a_file_that_is_not_a_log_is_reported_but_is_no_failure(
    ran: Ran, tmp_path: Path, name: str, content: bytes, note: str
) -> None:
    path = write(tmp_path / name, content)
    code, _, said = ran(path, BUNDLED)
    assert code == 0
    [line] = [each for each in said.splitlines() if each.startswith(str(path))]
    assert note in line


def test_a_folder_without_logs_beside_a_log_is_no_failure(ran: Ran, tmp_path: Path) -> None:
    write(tmp_path / "pictures/a.txt", b"nothing\n")
    assert ran(tmp_path / "pictures", BUNDLED)[0] == 0


def test_paths_without_any_log_are_a_failure(ran: Ran, tmp_path: Path) -> None:
    notes = write(tmp_path / "notes.txt", b"Call the vendor on Monday.\n" * 9)
    assert ran(notes)[0] == 1
    code, _, said = ran(write(tmp_path / "empty.log", b""))
    assert code == 2
    assert "No logs found in these paths." in said


@pytest.mark.parametrize("name", ["missing.log", "cut.log.gz"])
def test_a_file_that_cannot_be_read_is_a_failure(ran: Ran, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".gz"):
        # Only a gzip header; the rest is missing.
        path.write_bytes(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
    code, _, said = ran(path, BUNDLED)
    assert code == 1
    assert str(path) in said


@pytest.mark.parametrize("is_counted", [True, False])
def test_ctrl_c_reports_what_is_stored_and_how_to_continue(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, is_counted: bool
) -> None:
    def interrupted(*_: Any) -> Outcome:
        raise Interrupted("sending", Outcome("run-1", read=1200, stored=900), 3, is_counted)

    monkeypatch.setattr(replay, "run", interrupted)
    code, _, said = ran(BUNDLED)
    assert code == 130
    assert "Interrupted while sending. 1,200 lines of 3 files were read" in said
    assert ("900 of them are stored so far" in said) is is_counted
    assert "run the same command again" in said
    assert "Traceback" not in said


def test_ctrl_c_before_anything_was_sent_reports_that(
    ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Outcome:
        raise KeyboardInterrupt

    monkeypatch.setattr(replay, "run", interrupted)
    code, _, said = ran(BUNDLED)
    assert (code, said.strip()) == (130, "Interrupted. Nothing was sent.")


@pytest.mark.parametrize("is_there", [True, False])
def test_ctrl_c_counts_stored_lines_if_clickhouse_answers(is_there: bool) -> None:
    def rows(*_: Any) -> list[tuple[Any, ...]]:
        if not is_there:
            raise UserError("Cannot reach ClickHouse")
        return [("g1", 7, 1)]

    clickhouse: Any = SimpleNamespace(rows=rows)
    show: Any = SimpleNamespace(name="detecting")
    outcome = Outcome("run-1", read=10)
    with (
        pytest.raises(Interrupted) as stop,
        replaying._interruptible(clickhouse, show, outcome, [("a.log", "g1", 90, 10)]),
    ):
        raise KeyboardInterrupt
    assert "Interrupted while detecting. 10 lines of 1 files were read" in stop.value.summary
    assert ("7 of them are stored so far" in stop.value.summary) is is_there


def test_an_interrupted_reading_reports_its_progress(tmp_path: Path) -> None:
    path = write(
        tmp_path / "vmkernel.log",
        b"2024-05-06T07:08:09.000Z cpu1:2)ScsiDeviceIO: a line\n" * 20_000,
    )
    with plan([path]) as what:
        reading = Reading(what.files[0], "run-1", Options(), uptimes=UptimeClock())
        assert (reading.bytes_read, reading.lines_read) == (0, 0)
        next(iter(reading))
        assert 0 < reading.lines_read <= 20_000
        assert 0 <= reading.bytes_read <= path.stat().st_size
