"""`stunwatch triage`: its results, its output and the files that it leaves out."""

from __future__ import annotations

import json
import multiprocessing
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from stunwatch.cli.demo import INCIDENT
from stunwatch.detectors.catalogue import literals
from stunwatch.ingest.replay import Options, plan
from stunwatch.triage import finding
from stunwatch.triage.drawing import parts_of
from stunwatch.triage.finding import Found, find
from stunwatch.triage.page import COLUMNS, render
from stunwatch.triage.reading import shortest
from stunwatch.triage.results import EVENTS, Results, results_of
from tests.end_to_end import logs
from tests.pipeline import in_this_process

EXPECTED = json.loads((INCIDENT.parent / "expected.json").read_text())
HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J"
MIDNIGHT = datetime(2024, 5, 6, tzinfo=UTC)


def found_in(*paths: Path, processes: int = 1) -> Found:
    with plan(paths, Options()) as what:
        return find(what, Options(), processes=processes)


def run(*words: str | Path) -> CompletedProcess[str]:
    return in_this_process(["triage", *map(str, words)], {})


@pytest.fixture(scope="module")
def demo() -> Results:
    with plan([INCIDENT], Options()) as what:
        return results_of(what, find(what, Options()), 1.0)


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """Return a folder with a host's latency, stuns (one VM has a hostile name), and a text file."""
    logs.latency(tmp_path / "latency")
    logs.slow_storage(tmp_path / "slow")
    for number, vm in enumerate((HOSTILE.replace("/", ""), "vm02")):
        line = logs.stun_line(f"2024-05-06T07:0{number}:00.000Z", 7_000_000 + number)
        logs.vm_log(tmp_path, "esx66.lab.example", "ds1", vm, line)
    return tmp_path


def test_stuns_of_the_demo_are_shown_longest_first(demo: Results) -> None:
    assert demo.lines == sum(EXPECTED["lines"].values())
    assert [each["duration_us"] for each in demo.stuns[:10]] == EXPECTED["worst_stuns_us"]
    assert len(demo.stuns) == sum(EXPECTED["stuns"].values())
    assert demo.incidents[0]["worst_stun_us"] == EXPECTED["worst_stuns_us"][0]
    assert all(each["next_steps"] for each in demo.incidents if each["state"] != "noted")


def test_the_events_of_every_detector_are_shown() -> None:
    others = {"quality_events", "incidents", "inventory"}
    assert set(finding.VIEWS.values()) - others == set(EVENTS)
    assert set(COLUMNS) == set(EVENTS) - {"stuns"}


def test_several_processes_give_the_same_result(night: Path) -> None:
    alone, together = found_in(night), found_in(night, processes=3)
    for view, rows in alone.rows.items():
        assert sorted(rows, key=str) == sorted(together.rows[view], key=str), view
    assert alone.rows["latency_episodes"]
    assert alone.rows["stuns"]
    assert alone.rejected == together.rejected


def test_uptimes_of_one_host_in_two_folders_share_an_anchor(tmp_path: Path) -> None:
    def lines(first: int) -> str:
        return "".join(
            f"Jun  5 04:03:{first + second:02} esx31 vmkernel: 21:10:09:{first + second:02}.765"
            f" cpu1:1051)SCSI: vm 1051: 117: Sync CR at {64 - 16 * second}\n"
            for second in range(5)
        )

    logs.host_log(tmp_path, "esx31.lab.example", "vmkernel.log", lines(0))
    (tmp_path / "syslog").mkdir()
    (tmp_path / "syslog/relay.log").write_text(lines(10).replace(".765", ".265"))
    alone, together = found_in(tmp_path), found_in(tmp_path, processes=2)
    assert len(alone.rows["reservation_conflicts"]) == 2
    assert sorted(alone.rows["reservation_conflicts"], key=str) == sorted(
        together.rows["reservation_conflicts"], key=str
    )


def test_all_processes_end_if_one_fails(night: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(finding, "read", fail)
    with pytest.raises(MemoryError):
        found_in(night, processes=2)
    deadline = time.monotonic() + 60
    while multiprocessing.active_children():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_searching_the_shortest_literals_finds_every_line() -> None:
    kept = shortest(literals())
    assert all(any(each in literal for each in kept) for literal in literals())
    assert set(kept) < set(literals())


def test_a_long_time_without_events_is_cut_out_of_the_axis() -> None:
    def span(days: float) -> tuple[datetime, datetime]:
        start = MIDNIGHT + timedelta(days=days)
        return start, start + timedelta(hours=1)

    assert not parts_of([])
    assert len(parts_of([span(0)])) == 1
    first, second = parts_of([span(0), span(0.1), span(4000)])
    assert first.end < MIDNIGHT + timedelta(days=1)
    assert second.start > MIDNIGHT + timedelta(days=3999)
    assert first.right < second.left
    assert len(parts_of([span(1000 * number) for number in range(50)])) == 1


def test_the_page_loads_no_resources_and_shows_hostile_names_as_text(night: Path) -> None:
    with plan([night], Options()) as what:
        page = render(results_of(what, find(what, Options()), 1.0), 10, ZoneInfo("UTC"))
    assert "&lt;img src=x onerror=alert(1)&gt;␛[2J" in page
    for each in ("<img", "<script", "<link", "http://", "https://", "url(", "\x1b"):
        assert each not in page
    assert "default-src 'none'" in page
    assert "<svg" in page


def test_the_json_output_contains_all_results(night: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run(night, "--format", "json", "--top", "1", "--html", page)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert [each["duration_us"] for each in shown["stuns"]] == [7_000_001, 7_000_000]
    assert shown["latency_episodes"]
    assert shown["read"]["samples"] == 360
    rejected = [each["count"] for each in shown["data_quality"] if each["kind"] == "rejected"]
    assert sum(rejected) == shown["read"]["rejected"]
    assert {"incident_id", "verdict", "next_steps"} <= shown["incidents"][0].keys()
    assert page.read_text().startswith("<!doctype html>")


def test_the_table_contains_no_terminal_escape_sequences(night: Path) -> None:
    done = run(night)
    assert done.returncode == 0, done.stderr
    assert "\x1b[2J" not in done.stdout
    for each in ("Worst stuns", "Incidents", "Next steps:", "Data quality", "Left out"):
        assert each in done.stdout


def test_a_file_that_is_not_a_log_is_mentioned_and_is_no_failure(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("bring the cable\nand the keys\n")
    done = run(notes, INCIDENT / "esx02.lab.example/vmfs")
    assert done.returncode == 0
    assert "notes.txt: the file is not recognised as an ESXi log" in done.stdout
    assert "stunwatch sql rejected" not in done.stdout
    done = run(notes)
    assert done.returncode == 1
    assert "No stuns." in done.stdout
    assert "No incidents." in done.stdout


def test_an_unreadable_file_sets_the_exit_code(night: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.log"
    done = run(night / "esx66.lab.example", missing)
    assert done.returncode == 1
    assert "there is no such file" in done.stdout
    done = run(missing)
    assert done.returncode == 2
    assert "there is no such file" in done.stderr
    done = run(night, "--html", tmp_path / "no" / "page.html")
    assert done.returncode == 2
    assert "Cannot write" in done.stderr


def test_a_single_vmware_log_needs_the_option_vm(tmp_path: Path) -> None:
    log = tmp_path / "vmware.log"
    log.write_text(logs.stun_line("2024-05-06T07:00:00.000Z", 2_000_000))
    assert "--vm" in run(log).stderr
    done = run(log, "--vm", "mail01", "--format", "json")
    assert [each["vm"] for each in json.loads(done.stdout)["stuns"]] == ["mail01"]


@pytest.mark.parametrize("form", ["gztar", "tar"])
def test_an_archive_gives_the_same_result_as_its_folder(form: str, tmp_path: Path) -> None:
    host = "esx02.lab.example"
    shutil.copytree(INCIDENT / host, tmp_path / "bundle" / host)
    packed = shutil.make_archive(str(tmp_path / "packed"), form, tmp_path / "bundle")
    rows, same = found_in(tmp_path / "bundle").rows, found_in(Path(packed)).rows
    assert {each["event_id"] for each in rows["stuns"]} == {
        each["event_id"] for each in same["stuns"]
    }
    assert rows["stuns"]


def test_triage_works_without_the_packages_of_the_pipeline(tmp_path: Path) -> None:
    blocked = "apprise confluent_kafka matplotlib pyVmomi pyflink supervisor"
    blocked += " chdb superset jsonschema"
    line = logs.stun_line("2024-05-06T07:00:00.000Z", 2_000_000)
    log = logs.vm_log(tmp_path, "esx1", "ds1", "vm1", line)
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({blocked.split()}))\n"
        "from stunwatch.cli import main\n"
        f"sys.argv = ['stunwatch', 'triage', {str(log)!r}, '--html', {str(tmp_path / 'p')!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "2.000 s" in done.stdout
