"""From files to views, with exact counts: real Kafka, Flink and ClickHouse."""

from __future__ import annotations

import json
import re

import pytest

from stunwatch.cli.demo import INCIDENT
from stunwatch.clickhouse import as_user
from stunwatch.replaying import Outcome, count
from tests.end_to_end import logs
from tests.end_to_end.conftest import Replayed
from tests.end_to_end.logs import CORPUS, SEQUENCES
from tests.pipeline import Pipeline

EXPECTED = json.loads((INCIDENT.parent / "expected.json").read_text())
needs_corpus = pytest.mark.skipif(
    not CORPUS.exists(), reason="the published log lines are not on this machine"
)
SUMMARY = re.compile(r"read ([\d,]+) lines = stored ([\d,]+) \+ rejected ([\d,]+)")


def balance(said: str) -> tuple[int, int, int]:
    """Parse the numbers of lines read, stored and rejected in the output of `replay`."""
    found = SUMMARY.search(said)
    assert found, said
    read, stored, rejected = (int(each.replace(",", "")) for each in found.groups())
    return read, stored, rejected


def test_the_bundled_incident_is_replayed_with_exact_counts(
    pipeline: Pipeline, replayed: Replayed
) -> None:
    read, stored, rejected = balance(replayed.said)
    assert read == stored + rejected
    lines = pipeline.one(f"SELECT count() FROM log_lines WHERE startsWith(file, '{INCIDENT}')")
    assert lines == sum(EXPECTED["lines"].values())
    stuns = pipeline.rows(
        "SELECT concat(datastore, '/', vm), count() FROM stuns"
        " WHERE host IN ('esx01.lab.example', 'esx02.lab.example') AND vm != '' GROUP BY ALL"
    )
    assert dict(stuns) == EXPECTED["stuns"]
    worst = pipeline.rows(
        "SELECT duration_us FROM stuns WHERE vm = 'sql01' ORDER BY duration_us DESC LIMIT 10"
    )
    assert [each for (each,) in worst] == EXPECTED["worst_stuns_us"]


def test_replay_twice_changes_no_view(replayed: Replayed) -> None:
    """Covers the bundled incident, esxtop, host logs, published sequences and damaged files."""
    assert balance(replayed.said_again) == balance(replayed.said)
    assert replayed.views_again.keys() == replayed.views.keys()
    for view, rows in replayed.views.items():
        assert replayed.views_again[view] == rows, view


def test_every_replay_ends_with_the_same_summary(replayed: Replayed) -> None:
    lines = [each for each in replayed.said.splitlines() if "stunwatch sql longest_stuns" in each]
    assert re.fullmatch(r" +[\d,]+ stuns +stunwatch sql longest_stuns", *lines)
    assert lines[0] in replayed.said_again.splitlines()


def test_every_stun_is_exact_to_the_microsecond(pipeline: Pipeline, replayed: Replayed) -> None:
    wrong = pipeline.one(
        "SELECT count() FROM stuns"
        " WHERE dateDiff('microsecond', started_at, ended_at) != duration_us"
    )
    assert wrong == 0


@needs_corpus
def test_published_sequences_give_the_stuns_they_contain(
    pipeline: Pipeline, replayed: Replayed
) -> None:
    stuns = pipeline.rows(
        f"SELECT duration_us, measured_by FROM stuns WHERE datastore = '{SEQUENCES}'"
    )
    assert stuns == [(54_433_000, "cpt_mode")]


@needs_corpus
def test_the_lines_of_the_seed_give_their_two_stuns(pipeline: Pipeline, replayed: Replayed) -> None:
    [log] = (replayed.root / "seed_000").rglob("vmware.log")
    lines = log.read_text().splitlines()
    assert pipeline.one("SELECT count() FROM log_lines WHERE vm = 'seed'") == len(lines)
    stuns = pipeline.rows(
        "SELECT started_at, ended_at, duration_us FROM stuns WHERE vm = 'seed' ORDER BY ended_at"
    )
    assert stuns == [
        ("2012-03-23 16:22:48.217111", "2012-03-23 16:22:51.876000", 3658889),
        ("2012-05-14 13:34:30.178668", "2012-05-14 13:34:34.412000", 4233332),
    ]


def test_bad_input_is_reported_and_nothing_else_is_lost(
    pipeline: Pipeline, replayed: Replayed
) -> None:
    for said in ("empty", "binary data", "no ESXi log in this folder", "vmware-1.log.gz"):
        assert said in replayed.said
    durations = pipeline.rows("SELECT duration_us FROM stuns WHERE vm = 'vm09' ORDER BY ALL")
    assert [each for (each,) in durations] == logs.BAD_DURATIONS_US
    assert pipeline.one(
        "SELECT message FROM log_lines WHERE vm='vm09' AND message LIKE 'caf%'"
    ) == ("café ÿþ")
    assert pipeline.one("SELECT count() FROM log_lines WHERE vm = 'vm09' AND truncated") == 1
    reasons = pipeline.rows(
        "SELECT reason, line FROM rejected_lines"
        f" WHERE startsWith(file, '{replayed.root / 'bad_input'}')"
    )
    assert ("unknown line format", "no head that anybody knows") in reasons
    assert {reason for reason, _ in reasons} == {"unknown line format", "binary data"}


def test_a_line_that_is_lost_is_reported(pipeline: Pipeline) -> None:
    """One of three lines is missing, and another was rejected before it was stored.

    The rejected line must not hide the missing one.
    """
    admin = as_user(pipeline.settings, "admin")
    file, generation = "lossy/vmware.log", "00000000000f00d5"

    def store(offset: int) -> None:
        admin.command(
            "INSERT INTO log_lines_stored (event_time, given_received_at, source, vm, datastore,"
            " message, file, generation, offset, line_bytes, run_id) VALUES ('2018-05-06 07:08:01',"
            f" now64(), 'vmware_log', 'lossy', 'ds', 'line', '{file}', '{generation}',"
            f" {offset}, 10, 'made')"
        )

    def counted() -> tuple[int, int, dict[str, int]]:
        outcome = Outcome("test", read=3)
        count(pipeline.reader, [(file, generation, 30, 3)], outcome)
        return outcome.stored, outcome.rejected, outcome.missing

    for offset in (0, 10):
        store(offset)
    admin.command(
        "INSERT INTO rejected_lines_stored"
        " (received_at, source, generation, offset, run_id, reason)"
        f" VALUES (now64(), 'vmware_log', '{generation}', 0, 'old', 'no pattern')"
    )
    assert counted() == (2, 0, {file: 1})
    store(20)
    assert counted() == (3, 0, {})


def test_a_missing_path_is_reported_in_one_sentence(pipeline: Pipeline) -> None:
    done = pipeline.run("replay", "/no/such/file.log", code=2)
    assert "no such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_full_text_search_ignores_case(pipeline: Pipeline, replayed: Replayed) -> None:
    found = pipeline.one("SELECT count() FROM log_lines_with(words = 'checkpoint_unstun STOPPED')")
    wanted = pipeline.one("SELECT count() FROM log_lines WHERE message ILIKE '%checkpoint_unstun%'")
    assert found == wanted > 0


def test_every_byte_of_a_replayed_file_is_accounted_for(
    pipeline: Pipeline, replayed: Replayed
) -> None:
    files = pipeline.rows(
        f"SELECT file, bytes_seen, gap_bytes FROM coverage WHERE startsWith(file, '{INCIDENT}')"
    )
    sizes = {str(path): path.stat().st_size for path in INCIDENT.rglob("*.log")}
    assert {file: size for file, size, _ in files} == sizes
    assert {gap for _, _, gap in files} == {0}
