"""`stunwatch audit`: lines against what Flink found, and files against what is stored."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from detectors.catalogue import detector
from stunwatch.audit.events import CHECKS, Difference, all_spans, compare
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.commands.audit import EXIT_DIFFERS
from tests.detectors.cases import cases_of
from tests.end_to_end.conftest import STUNWATCH, Pipeline

HOST = "esx30.lab.example"


@pytest.fixture
def admin(pipeline: Pipeline) -> ClickHouse:
    return as_user(pipeline.settings, "admin")


@pytest.fixture(scope="module")
def audited01(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a VM with stuns of 100 005, 100 015, … µs, and of a host with a count-down."""
    root = tmp_path_factory.mktemp("audited")
    vm_log(root, "audited01", minutes(60, "audited01", datetime(2018, 3, 1, tzinfo=UTC)))
    log = root / "esx31.lab.example/scratch/log/vmkernel.log"
    log.parent.mkdir(parents=True)
    log.write_text(
        "".join(
            f"Jun  5 04:03:0{second} esx31 vmkernel: 21:10:09:0{second}.765 cpu1:1051)"
            f"SCSI: vm 1051: 117: Sync CR at {64 - 16 * second}\n"
            for second in range(5)
        )
    )
    pipeline.run("replay", root)
    return root


def vm_log(root: Path, vm: str, text: str) -> Path:
    log = root / HOST / "vmfs/volumes/ds-audit" / vm / "vmware.log"
    log.parent.mkdir(parents=True)
    log.write_text(text)
    return log


def minutes(count: int, vm: str, first: datetime) -> str:
    """A log with a line a minute; every tenth tells a stun."""
    lines = []
    for number in range(count):
        at = first + timedelta(minutes=number)
        said = f"note {number} of {vm}"
        if number % 10 == 5:
            said = f"Checkpoint_Unstun: vm stopped for {100_000 + number} us"
        lines.append(f"{at:%Y-%m-%dT%H:%M:%S}.000Z| vcpu-0| I120: {said}\n")
    return "".join(lines)


def audit(pipeline: Pipeline, *words: str) -> dict[str, Any]:
    """What `audit` says; other tests may have left differences of their own."""
    done = subprocess.run(
        [STUNWATCH, "audit", "--format", "json", "--most", "100000", *words],
        env=pipeline.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["is_clean"] else EXIT_DIFFERS), done.stderr
    return found


def told(pipeline: Pipeline, vm: str) -> list[dict[str, Any]]:
    """What `audit` says of a VM's stuns."""
    differences = audit(pipeline)["events"]["stuns"]["differences"]
    return [each for each in differences if each["owner"] == f"ds-audit/{vm}"]


def gaps(found: dict[str, Any], path: Path) -> list[list[int]]:
    """What `audit` said of a file."""
    each = [each["gaps"] for each in found["files"]["gaps"] if each["path"] == str(path)]
    return each[0] if each else []


def differences_of(pipeline: Pipeline, words: str) -> list[Difference]:
    return [
        each
        for check in CHECKS
        for span in all_spans(pipeline.reader)
        for each in compare(pipeline.reader, check, span, "1970-01-02 00:00:00").differences
        if words in each.owner
    ]


@pytest.mark.parametrize("name", CHECKS)
def test_every_case_is_told_by_sql_as_by_the_tracker(
    pipeline: Pipeline, tmp_path: Path, name: str
) -> None:
    each = detector(name)
    for case in cases_of(each):
        word = case.name.replace("_", "-")
        if each.owner == "vm":
            place = tmp_path / HOST / "vmfs/volumes/ds-audit" / f"case-{word}" / "vmware.log"
        else:
            place = tmp_path / f"case-{word}" / "scratch/log/vmkernel.log"
        place.parent.mkdir(parents=True)
        shutil.copy(case / "input.log", place)
    # Lines without heads do not look like a log: replay says so.
    pipeline.run("replay", tmp_path, code=0 if each.owner == "vm" else 1)
    assert pipeline.differences() <= pipeline.known_differences


def test_whatever_a_log_says_both_tell_the_same(pipeline: Pipeline, tmp_path: Path) -> None:
    """Lines about stuns in any order: the two implementations agree."""
    random = Random(20)
    for number in range(40):
        vm_log(tmp_path, f"any{number:02}", "".join(anything(random)))
    pipeline.run("replay", tmp_path)
    assert pipeline.one("SELECT count() FROM stuns WHERE vm LIKE 'any%'") > 100
    assert not differences_of(pipeline, "ds-audit/any")


def anything(random: Random) -> Iterator[str]:
    at = datetime(2023, 5, 1, tzinfo=UTC) + timedelta(days=random.randrange(60))
    lengths_us = [random.randrange(1_000, 4_000_000) for _ in range(4)]
    for _ in range(random.randrange(3, 30)):
        at += timedelta(milliseconds=random.choice([1, 30, 29, 300, 900, 2_000, 5_001, 60_000]))
        length_us, mode = random.choice(lengths_us), random.choice([0, 1, 2, 2, 2, 3, 6, 6])
        message = random.choice(
            [
                f"Checkpoint_Unstun: vm stopped for {length_us} us",
                f"CPT: vm was stunned for {length_us + random.choice([29_000, 31_000])} us",
                f"CPT current = 0, requesting {mode}",
                f"CPT: monitor ACKing mode {mode}",
                f"Done Sync monModules({mode}).",
            ]
        )
        stamp = f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
        continued = random.choice(["", "", "", "", "+"])
        yield f"{stamp} In(05){continued} vcpu-0 - {message}\n"


def test_a_row_that_is_gone_is_missing(
    pipeline: Pipeline, admin: ClickHouse, audited01: Path
) -> None:
    admin.command("DELETE FROM stuns_stored WHERE vm = 'audited01' AND duration_us = 100015")
    [found] = told(pipeline, "audited01")
    assert (found["finding"], found["at"]) == ("missing", "2018-03-01 00:15:00.000")
    assert found["recomputed"][0]["duration_us"] == "100015"
    done = pipeline.run("audit", "--most", "1000", code=EXIT_DIFFERS)
    assert "stuns are missing" in done.stdout
    assert "ds-audit/audited01" in done.stdout
    pipeline.run("replay", audited01)


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("duration_us", "77", "77"),
        ("severity", "'critical'", "critical"),
        ("reported_us", "9", "9"),
        ("measured_by", "'cpt_mode'", "cpt_mode"),
    ],
)
def test_a_row_that_was_altered_is_different(
    pipeline: Pipeline, admin: ClickHouse, audited01: Path, column: str, value: str, shown: str
) -> None:
    where = "vm = 'audited01' AND ended_at = '2018-03-01 00:25:00'"
    before = pipeline.one(f"SELECT toString(tuple({column})) FROM stuns WHERE {where}")
    update = f"ALTER TABLE stuns_stored UPDATE {column} = {{}} WHERE {where}"
    admin.command(f"{update.format(value)} SETTINGS mutations_sync = 1")
    [found] = told(pipeline, "audited01")
    assert (found["finding"], found["at"]) == ("different", "2018-03-01 00:25:00.000")
    [mine], [theirs] = found["recomputed"], found["stored"]
    assert {name for name in mine if mine[name] != theirs[name]} == {column}
    assert theirs[column] == shown
    admin.command(f"{update.format(before[1:-1])} SETTINGS mutations_sync = 1")


def test_a_stun_that_no_line_tells_is_extra(
    pipeline: Pipeline, admin: ClickHouse, audited01: Path
) -> None:
    where = "vm = 'audited01' AND duration_us = 100005"
    admin.command(
        "INSERT INTO stuns_stored SELECT * REPLACE (generateUUIDv4() AS event_id,"
        f" ended_at + INTERVAL 2 HOUR AS ended_at) FROM stuns_stored WHERE {where}"
    )
    [found] = told(pipeline, "audited01")
    assert (found["finding"], found["at"]) == ("extra", "2018-03-01 02:05:00.000")
    admin.command(f"DELETE FROM stuns_stored WHERE {where} AND ended_at > '2018-03-01 01:00:00'")


def test_a_count_down_that_was_altered_is_different(
    pipeline: Pipeline, admin: ClickHouse, audited01: Path
) -> None:
    update = (
        "ALTER TABLE reservation_conflicts_stored UPDATE outcome = '{}'"
        " WHERE startsWith(host, 'esx31') SETTINGS mutations_sync = 1"
    )
    admin.command(update.format("recovered"))
    [found] = differences_of(pipeline, "esx31")
    assert found.fields == [("outcome", "failed", "recovered")]
    admin.command(update.format("failed"))


def test_bytes_that_never_arrived_are_told_and_shipped_again(
    pipeline: Pipeline, admin: ClickHouse, tmp_path: Path
) -> None:
    text = minutes(1_000, "gap01", datetime(2018, 6, 1, tzinfo=UTC))
    log = vm_log(tmp_path, "gap01", text)
    pipeline.run("replay", tmp_path)
    before = without_arrival(pipeline, "gap01")
    lines = text.splitlines(keepends=True)
    start, end = (sum(map(len, lines[:number])) for number in (500, 520))
    admin.command(
        f"DELETE FROM log_lines_stored WHERE vm = 'gap01' AND offset >= {start} AND offset < {end}"
    )
    admin.command("DELETE FROM stuns_stored WHERE vm = 'gap01' AND duration_us = 100505")
    admin.command("DELETE FROM stuns_stored WHERE vm = 'gap01' AND duration_us = 100515")
    assert gaps(audit(pipeline), log) == [[start, end]]
    # Rotation renames a file: it is known by how it begins.
    rotated = log.rename(log.with_name("vmware-1.log"))
    log.write_text("2018-07-01T00:00:00.000Z| vmx| I120: Log for VMware ESX pid=1\n")
    assert not gaps(audit(pipeline, "--repair"), rotated)
    log.unlink()
    shipped = pipeline.one(
        "SELECT count() FROM log_lines WHERE vm = 'gap01' AND file LIKE '%-1.log'"
    )
    assert shipped == 20
    assert without_arrival(pipeline, "gap01") == before


def without_arrival(pipeline: Pipeline, vm: str) -> list[tuple[Any, ...]]:
    """The lines and stuns of a VM without what tells when and under which name they came."""
    return [
        *pipeline.rows(
            "SELECT * EXCEPT (received_at, file, run_id) FROM log_lines"
            f" WHERE vm = '{vm}' ORDER BY ALL"
        ),
        *pipeline.rows(
            f"SELECT * EXCEPT (detected_at, run_id) FROM stuns WHERE vm = '{vm}' ORDER BY ALL"
        ),
    ]


def test_a_file_that_goes_on_is_told_and_shipped_on(pipeline: Pipeline, tmp_path: Path) -> None:
    first = datetime(2018, 8, 1, tzinfo=UTC)
    text = minutes(100, "tail01", first)
    log = vm_log(tmp_path, "tail01", text)
    pipeline.run("replay", tmp_path)
    more = minutes(20, "tail01", first + timedelta(minutes=100))
    with log.open("a") as file:
        file.write(more + "2018-08-01T09:00:00.000Z| vmx| I120: a line that is still being wr")
    assert gaps(audit(pipeline), log) == [[len(text), len(text) + len(more)]]
    assert not gaps(audit(pipeline, "--repair"), log)
    assert pipeline.one("SELECT count() FROM stuns WHERE vm = 'tail01'") == 12


def test_what_would_be_read_otherwise_is_not_shipped(
    pipeline: Pipeline, admin: ClickHouse, tmp_path: Path
) -> None:
    log = tmp_path / "vmware.log"
    lines = [f"Mar 04 05:{minute:02}:07.089: vmx| note {minute}\n" for minute in range(60)]
    log.write_text("".join(lines))
    words = ("--tz", "Europe/Vienna", "--year", "2009")
    pipeline.run("replay", log, "--vm", "zone01", "--datastore", "ds-audit", "--host", HOST, *words)
    place = sum(map(len, lines[:30]))
    admin.command(f"DELETE FROM log_lines_stored WHERE vm = 'zone01' AND offset = {place}")
    done = pipeline.run("audit", "--repair", "--most", "1000", code=EXIT_DIFFERS)
    assert "anothertime" in "".join(re.findall(r"\w+", done.stdout))
    assert not gaps(audit(pipeline, "--repair", *words), log)
    assert pipeline.one("SELECT count() FROM log_lines WHERE vm = 'zone01'") == 60
