"""`stunwatch audit`: lines against what Flink found, and files against what is stored."""

from __future__ import annotations

import json
import re
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
from tests.detectors.cases import cases_of, joins_of
from tests.end_to_end.conftest import STUNWATCH, Pipeline

HOST = "esx30.lab.example"


@pytest.fixture
def admin(pipeline: Pipeline) -> ClickHouse:
    return as_user(pipeline.settings, "admin")


@pytest.fixture(scope="module")
def replayed(pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What most tests look at, replayed at once: each run of the history job takes its time."""
    root = tmp_path_factory.mktemp("audited")
    for name in CHECKS:
        each = detector(name)
        for case in cases_of(each):
            word = f"case-{name}-{case.name}".replace("_", "-")
            if each.owner == "vm":
                vm_log(root, word, (case / "input.log").read_text())
            else:
                host_log(root, word, "vmkernel.log", (case / "input.log").read_text())
    for number, join in enumerate(joins_of(detector("migrations"))):
        vm_log(root, join.name.replace("_", "-"), (join / "vm.log").read_text())
        host_log(root, HOST, f"hostd.{number}.log", (join / "host.log").read_text())
    random = Random(20)
    for number in range(40):
        vm_log(root, f"any{number:02}", "".join(anything(random)))
    # Stuns of 100 005, 100 015, … µs.
    vm_log(root, "audited01", minutes(60, "audited01", datetime(2018, 3, 1, tzinfo=UTC)))
    vm_log(root, "gap01", minutes(1_000, "gap01", datetime(2018, 6, 1, tzinfo=UTC)))
    vm_log(root, "tail01", minutes(100, "tail01", datetime(2018, 8, 1, tzinfo=UTC)))
    countdown = (
        f"Jun  5 04:03:0{second} esx31 vmkernel: 21:10:09:0{second}.765 cpu1:1051)"
        f"SCSI: vm 1051: 117: Sync CR at {64 - 16 * second}\n"
        for second in range(5)
    )
    host_log(root, "esx31.lab.example", "vmkernel.log", "".join(countdown))
    # A case's lines without heads do not look like a log: replay says so.
    pipeline.run("replay", root, code=1)
    return root


def host_log(root: Path, host: str, name: str, text: str) -> None:
    log = root / host / "scratch/log" / name
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)


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


def test_sql_tells_every_case_as_the_trackers_do(pipeline: Pipeline, replayed: Path) -> None:
    assert pipeline.differences() <= pipeline.known_differences
    since = "1970-01-02 00:00:00"
    for check in CHECKS:
        found = [
            compare(pipeline.reader, check, span, since) for span in all_spans(pipeline.reader)
        ]
        assert sum(each.same for each in found) >= 3, check


def test_whatever_a_log_says_both_tell_the_same(pipeline: Pipeline, replayed: Path) -> None:
    """Lines about stuns in any order: the two implementations agree."""
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
    pipeline: Pipeline, admin: ClickHouse, replayed: Path, column: str, value: str, shown: str
) -> None:
    where = "vm = 'audited01' AND ended_at = '2018-03-01 00:25:00'"
    before = pipeline.one(f"SELECT toString(tuple({column})) FROM stuns WHERE {where}")
    update = f"ALTER TABLE stuns_stored UPDATE {column} = {{}} WHERE {where}"
    admin.command(f"{update.format(value)} SETTINGS mutations_sync = 1")
    [found] = differences_of(pipeline, "ds-audit/audited01")
    assert (found.finding, found.anchor) == ("different", "2018-03-01 00:25:00.000")
    [(name, _, theirs)] = found.fields
    assert (name, theirs) == (column, shown)
    admin.command(f"{update.format(before[1:-1])} SETTINGS mutations_sync = 1")


def test_a_stun_that_no_line_tells_is_extra(
    pipeline: Pipeline, admin: ClickHouse, replayed: Path
) -> None:
    where = "vm = 'audited01' AND duration_us = 100005"
    admin.command(
        "INSERT INTO stuns_stored SELECT * REPLACE (generateUUIDv4() AS event_id,"
        f" ended_at + INTERVAL 2 HOUR AS ended_at) FROM stuns_stored WHERE {where}"
    )
    [found] = differences_of(pipeline, "ds-audit/audited01")
    assert (found.finding, found.anchor) == ("extra", "2018-03-01 02:05:00.000")
    admin.command(f"DELETE FROM stuns_stored WHERE {where} AND ended_at > '2018-03-01 01:00:00'")


def test_a_hosts_number_of_a_migration_that_was_altered_is_told(
    pipeline: Pipeline, admin: ClickHouse, replayed: Path
) -> None:
    """Of one migration hostd alone tells the stun, of another the VM's own log does."""
    by_host, by_vm = "8311186098575749161", "8311186098575749160"
    where = "vm = 'vm-log-names-the-migration-only' AND measured_by = 'hostd'"
    update = f"ALTER TABLE stuns_stored UPDATE {{}} WHERE {where} SETTINGS mutations_sync = 1"
    assert pipeline.one(f"SELECT migration_id FROM stuns WHERE {where}") == by_host
    admin.command(update.format("duration_us = 77"))
    [altered] = differences_of(pipeline, f"migration {by_host}")
    assert (altered.finding, altered.fields) == ("different", [("duration_us", "64319", "77")])

    # A second row of what the VM's own log tells, and none of what hostd alone tells.
    admin.command(update.format(f"duration_us = 64319, migration_id = '{by_vm}'"))
    found = {each.owner: each for each in differences_of(pipeline, "migration ")}
    missing = found[f"migration {by_host}"]
    assert (missing.finding, missing.anchor) == ("missing", "2023-06-21 11:40:10.540000")
    assert missing.recomputed[0]["host"] == "esx30"
    assert found[f"migration {by_vm}"].finding == "extra"

    # Nobody's.
    admin.command(update.format("migration_id = '83'"))
    found = {each.owner: each for each in differences_of(pipeline, "migration ")}
    assert found["migration 83"].finding == "extra"
    assert f"migration {by_vm}" not in found
    admin.command(update.format(f"migration_id = '{by_host}'"))
    assert not differences_of(pipeline, "migration ")


def test_a_count_down_that_was_altered_is_different(
    pipeline: Pipeline, admin: ClickHouse, replayed: Path
) -> None:
    update = (
        "ALTER TABLE reservation_conflicts_stored UPDATE outcome = '{}'"
        " WHERE startsWith(host, 'esx31') SETTINGS mutations_sync = 1"
    )
    admin.command(update.format("recovered"))
    [found] = differences_of(pipeline, "esx31 ")
    assert found.fields == [("outcome", "failed", "recovered")]
    admin.command(update.format("failed"))


@pytest.mark.slow
def test_what_is_missing_is_told_and_shipped_again(
    pipeline: Pipeline, admin: ClickHouse, replayed: Path
) -> None:
    folder = replayed / HOST / "vmfs/volumes/ds-audit"
    holed, growing = folder / "gap01/vmware.log", folder / "tail01/vmware.log"
    before = without_arrival(pipeline, "gap01")

    # A row that is gone is missing.
    admin.command("DELETE FROM stuns_stored WHERE vm = 'gap01' AND duration_us = 100505")
    told = audit(pipeline)
    differences = told["events"]["stuns"]["differences"]
    [found] = [each for each in differences if each["owner"] == "ds-audit/gap01"]
    assert found["finding"] == "missing"
    assert found["at"] == "2018-06-01 08:25:00.000"
    assert found["recomputed"][0]["duration_us"] == "100505"
    done = pipeline.run("audit", "--most", "1000", code=EXIT_DIFFERS)
    assert "stuns are missing" in done.stdout
    assert "ds-audit/gap01" in done.stdout
    assert "Not compared: the causes of stuns" in done.stdout

    # So are lines that never came, and what a file has grown by.
    lines = holed.read_text().splitlines(keepends=True)
    start, end = (sum(map(len, lines[:number])) for number in (500, 520))
    admin.command(
        f"DELETE FROM log_lines_stored WHERE vm = 'gap01' AND offset >= {start} AND offset < {end}"
    )
    admin.command("DELETE FROM stuns_stored WHERE vm = 'gap01' AND duration_us = 100515")
    # Rotation renames a file: it is known by how it begins.
    rotated = holed.rename(holed.with_name("vmware-1.log"))
    holed.write_text("2018-07-01T00:00:00.000Z| vmx| I120: Log for VMware ESX pid=1\n")
    size = growing.stat().st_size
    more = minutes(20, "tail01", datetime(2018, 8, 1, 1, 40, tzinfo=UTC))
    with growing.open("a") as file:
        file.write(more + "2018-08-01T09:00:00.000Z| vmx| I120: a line that is still being wr")
    told = audit(pipeline)
    assert gaps(told, rotated) == [[start, end]]
    assert gaps(told, growing) == [[size, size + len(more)]]

    told = audit(pipeline, "--repair")
    assert not gaps(told, rotated)
    assert not gaps(told, growing)
    holed.unlink()
    shipped = pipeline.one(
        "SELECT count() FROM log_lines WHERE vm = 'gap01' AND file LIKE '%-1.log'"
    )
    assert shipped == 20
    assert without_arrival(pipeline, "gap01") == before
    assert pipeline.one("SELECT count() FROM stuns WHERE vm = 'tail01'") == 12


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


@pytest.mark.slow
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
