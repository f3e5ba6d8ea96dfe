"""`stunwatch audit`: lines compared with Flink's events, and files with stored lines."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stunwatch.audit.events import CHECKS, Difference, all_spans, compare
from stunwatch.cli.audit import EXIT_DIFFERS
from stunwatch.clickhouse import ClickHouse, as_user
from tests.clickhouse_server import insertion
from tests.end_to_end.conftest import Replayed
from tests.end_to_end.logs import AUDITED_HOST as HOST
from tests.end_to_end.logs import minutes
from tests.pipeline import Pipeline


@pytest.fixture
def admin(pipeline: Pipeline) -> ClickHouse:
    return as_user(pipeline.settings, "admin")


def audit(pipeline: Pipeline, *words: str) -> dict[str, Any]:
    """Return the output of `audit`; other tests may have left differences of their own."""
    done = pipeline.command("audit", "--format", "json", "--most", "100000", *words)
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["is_clean"] else EXIT_DIFFERS), done.stderr
    return found


def gaps(found: dict[str, Any], path: Path) -> list[list[int]]:
    """Return the gaps that `audit` reports for a file."""
    each = [each["gaps"] for each in found["files"]["gaps"] if each["path"] == str(path)]
    return each[0] if each else []


def differences_of(pipeline: Pipeline, words: str) -> list[Difference]:
    return [
        each
        for check in CHECKS
        for span in all_spans(pipeline.reader, check)
        for each in compare(pipeline.reader, check, span, "1970-01-02 00:00:00").differences
        if words in each.owner
    ]


def test_sql_gives_the_same_events_as_the_trackers_for_every_case(
    pipeline: Pipeline, replayed: Replayed
) -> None:
    assert pipeline.differences() <= pipeline.known_differences
    since = "1970-01-02 00:00:00"
    for check in CHECKS:
        found = [
            compare(pipeline.reader, check, span, since)
            for span in all_spans(pipeline.reader, check)
        ]
        assert sum(each.same for each in found) >= 3, check


def test_sql_and_trackers_agree_on_random_lines(pipeline: Pipeline, replayed: Replayed) -> None:
    """Lines about stuns in random order: the two implementations agree."""
    assert pipeline.one("SELECT count() FROM stuns WHERE vm LIKE 'any%'") > 100
    assert not differences_of(pipeline, "ds-audit/any")


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("duration_us", "77", "77"),
        ("severity", "'critical'", "critical"),
        ("reported_us", "9", "9"),
        ("measured_by", "'cpt_mode'", "cpt_mode"),
    ],
)
def test_an_altered_stun_is_reported_as_different(
    pipeline: Pipeline, admin: ClickHouse, replayed: Replayed, column: str, value: str, shown: str
) -> None:
    where = "vm = 'audited01' AND ended_at = '2018-03-01 00:25:00'"
    before = pipeline.one(f"SELECT toString(tuple({column})) FROM stuns WHERE {where}")

    def alter(value: str) -> None:
        admin.command(
            f"INSERT INTO stuns_stored SELECT * REPLACE ({value} AS {column}, revision + 1 AS"
            f" revision) FROM stuns_stored FINAL WHERE {where}"
        )

    alter(value)
    [found] = differences_of(pipeline, "ds-audit/audited01")
    assert (found.finding, found.anchor) == ("different", "2018-03-01 00:25:00.000")
    [(name, _, theirs)] = found.fields
    assert (name, theirs) == (column, shown)
    alter(before[1:-1])


def test_a_stun_without_a_line_is_reported_as_extra(
    pipeline: Pipeline, admin: ClickHouse, replayed: Replayed
) -> None:
    where = "vm = 'audited01' AND duration_us = 100005"
    admin.command(
        "INSERT INTO stuns_stored SELECT * REPLACE (generateUUIDv4() AS event_id,"
        f" ended_at + INTERVAL 2 HOUR AS ended_at) FROM stuns_stored WHERE {where}"
    )
    [found] = differences_of(pipeline, "ds-audit/audited01")
    assert (found.finding, found.anchor) == ("extra", "2018-03-01 02:05:00.000")
    admin.command(f"DELETE FROM stuns_stored WHERE {where} AND ended_at > '2018-03-01 01:00:00'")


def test_an_altered_stun_of_a_migration_is_reported(
    pipeline: Pipeline, admin: ClickHouse, replayed: Replayed
) -> None:
    """One migration's stun is only in hostd's log, another's is in the VM's own log."""
    by_host, by_vm = "8311186098575749161", "8311186098575749160"
    where = "vm = 'vm-log-names-the-migration-only' AND measured_by = 'hostd'"
    update = f"ALTER TABLE stuns_stored UPDATE {{}} WHERE {where} SETTINGS mutations_sync = 1"
    assert pipeline.one(f"SELECT migration_id FROM stuns WHERE {where}") == by_host
    admin.command(update.format("duration_us = 77"))
    [altered] = differences_of(pipeline, f"migration {by_host}")
    assert (altered.finding, altered.fields) == ("different", [("duration_us", "64319", "77")])

    # Add a second row for the VM's own stun, and remove the row of hostd's.
    admin.command(update.format(f"duration_us = 64319, migration_id = '{by_vm}'"))
    found = {each.owner: each for each in differences_of(pipeline, "migration ")}
    missing = found[f"migration {by_host}"]
    assert (missing.finding, missing.anchor) == ("missing", "2023-06-21 11:40:10.540000")
    assert missing.recomputed[0]["host"] == "esx30"
    assert found[f"migration {by_vm}"].finding == "extra"

    # A row without a matching line.
    admin.command(update.format("migration_id = '83'"))
    found = {each.owner: each for each in differences_of(pipeline, "migration ")}
    assert found["migration 83"].finding == "extra"
    assert f"migration {by_vm}" not in found
    admin.command(update.format(f"migration_id = '{by_host}'"))
    assert not differences_of(pipeline, "migration ")


def test_an_altered_count_down_is_reported_as_different(
    pipeline: Pipeline, admin: ClickHouse, replayed: Replayed
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
def test_missing_lines_and_rows_are_reported_and_shipped_again(
    pipeline: Pipeline, admin: ClickHouse, replayed: Replayed
) -> None:
    folder = replayed.root / "audited" / HOST / "vmfs/volumes/ds-audit"
    holed, growing = folder / "gap01/vmware.log", folder / "tail01/vmware.log"
    before = without_arrival(pipeline, "gap01")

    # A deleted row is missing.
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

    # So are lines that never arrived, and lines appended to a file.
    lines = holed.read_text().splitlines(keepends=True)
    start, end = (sum(map(len, lines[:number])) for number in (500, 520))
    delete_lines(admin, f"vm = 'gap01' AND offset >= {start} AND offset < {end}")
    admin.command("DELETE FROM stuns_stored WHERE vm = 'gap01' AND duration_us = 100515")
    # Rotation renames a file: it is identified by its first bytes.
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


def delete_lines(admin: ClickHouse, where: str) -> None:
    """Delete lines, and store the runs of their files again, as if they had never arrived."""
    files = admin.rows(f"SELECT DISTINCT generation FROM log_lines_stored WHERE {where}")
    of_files = f"generation IN ({', '.join(repr(generation) for (generation,) in files)})"
    admin.command(f"DELETE FROM log_lines_stored WHERE {where}")
    admin.command(f"DELETE FROM file_runs_stored WHERE {of_files}")
    others = admin.named_rows(f"SELECT * FROM log_lines WHERE {of_files}")
    admin.command(insertion("log_lines_stored", others))


def without_arrival(pipeline: Pipeline, vm: str) -> list[tuple[Any, ...]]:
    """Return the lines and stuns of a VM without columns about their arrival and run."""
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
def test_lines_that_would_be_parsed_to_another_time_are_not_shipped(
    pipeline: Pipeline, admin: ClickHouse, tmp_path: Path
) -> None:
    log = tmp_path / "vmware.log"
    lines = [f"Mar 04 05:{minute:02}:07.089: vmx| note {minute}\n" for minute in range(60)]
    log.write_text("".join(lines))
    words = ("--tz", "Europe/Vienna", "--year", "2009")
    pipeline.run("replay", log, "--vm", "zone01", "--datastore", "ds-audit", "--host", HOST, *words)
    place = sum(map(len, lines[:30]))
    delete_lines(admin, f"vm = 'zone01' AND offset = {place}")
    done = pipeline.run("audit", "--repair", "--most", "1000", code=EXIT_DIFFERS)
    assert "anothertime" in "".join(re.findall(r"\w+", done.stdout))
    assert not gaps(audit(pipeline, "--repair", *words), log)
    assert pipeline.one("SELECT count() FROM log_lines WHERE vm = 'zone01'") == 60
