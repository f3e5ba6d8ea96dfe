"""From files to views, with exact counts: real Kafka, Flink and ClickHouse."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import pytest

from stunwatch.clickhouse import as_user
from stunwatch.commands.demo import INCIDENT
from stunwatch.commands.replay import Outcome, count
from tests.end_to_end.conftest import Pipeline

EXPECTED = json.loads((INCIDENT.parent / "expected.json").read_text())
CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", Path(__file__).parents[3] / "shared/corpus"))
needs_corpus = pytest.mark.skipif(
    not CORPUS.exists(), reason="the published log lines are not on this machine"
)


def stun_line(at: str, duration_us: int) -> str:
    return f"{at}| vcpu-0| I120: Checkpoint_Unstun: vm stopped for {duration_us} us\n"


def test_the_bundled_incident_and_again(pipeline: Pipeline) -> None:
    done = pipeline.run("replay", INCIDENT)
    lines = sum(EXPECTED["lines"].values())
    assert f"read {lines:,} lines = stored {lines:,} + rejected 0" in done.stderr
    stuns = pipeline.rows(
        "SELECT concat(datastore, '/', vm), count() FROM stuns"
        " WHERE host IN ('esx01.lab.example', 'esx02.lab.example') AND vm != '' GROUP BY ALL"
    )
    assert dict(stuns) == EXPECTED["stuns"]
    worst = pipeline.rows(
        "SELECT duration_us FROM stuns WHERE vm = 'sql01' ORDER BY duration_us DESC LIMIT 10"
    )
    assert [each for (each,) in worst] == EXPECTED["worst_stuns_us"]
    before = pipeline.views()
    assert f"stored {lines:,} + rejected 0" in pipeline.run("replay", INCIDENT).stderr
    assert pipeline.views() == before


def test_every_stun_is_exact_to_the_microsecond(pipeline: Pipeline) -> None:
    pipeline.run("replay", INCIDENT)
    wrong = pipeline.one(
        "SELECT count() FROM stuns"
        " WHERE dateDiff('microsecond', started_at, ended_at) != duration_us"
    )
    assert wrong == 0


@needs_corpus
def test_published_sequences_give_the_stuns_they_contain(pipeline: Pipeline) -> None:
    pipeline.run("replay", CORPUS / "sequences")
    stuns = pipeline.rows(
        "SELECT duration_us, measured_by FROM stuns s INNER JOIN"
        f" (SELECT DISTINCT run_id FROM log_lines WHERE startsWith(file, '{CORPUS}'))"
        " AS runs USING run_id"
    )
    assert stuns == [(54_433_000, "cpt_mode")]
    before = pipeline.views()
    pipeline.run("replay", CORPUS / "sequences")
    assert pipeline.views() == before


@needs_corpus
def test_the_seeds_own_lines(pipeline: Pipeline, tmp_path: Path) -> None:
    text = "".join(path.read_text() for path in sorted(CORPUS.with_name("seeds").glob("000_*")))
    lines = re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+Z\| v[\w-]+\| .*", text)
    log = tmp_path / "vmware.log"
    log.write_text("".join(line.rstrip() + "\n" for line in lines))
    pipeline.run("replay", log, "--vm", "seed", "--datastore", "seeds", "--host", "esx05")
    assert pipeline.one("SELECT count() FROM log_lines WHERE vm = 'seed'") == len(lines)
    stuns = pipeline.rows(
        "SELECT started_at, ended_at, duration_us FROM stuns WHERE vm = 'seed' ORDER BY ended_at"
    )
    assert stuns == [
        ("2012-03-23 16:22:48.217111", "2012-03-23 16:22:51.876000", 3658889),
        ("2012-05-14 13:34:30.178668", "2012-05-14 13:34:34.412000", 4233332),
    ]


def test_bad_input_is_told_and_nothing_else_is_lost(pipeline: Pipeline, tmp_path: Path) -> None:
    folder = tmp_path / "esx09.bad.example/vmfs/volumes/ds/vm09"
    folder.mkdir(parents=True)
    good = [stun_line(f"2019-05-06T07:08:{second:02}.000Z", 90_001 + second) for second in range(9)]
    packed = gzip.compress(
        "".join(
            f"2019-05-05T07:{number // 600:02}:{number // 10 % 60:02}.{number % 10}00Z| vmx| I120: "
            f"line {number * 7919}\n"
            for number in range(9000)
        ).encode()
    )
    (folder / "vmware-1.log.gz").write_bytes(packed[: len(packed) // 2])
    (folder / "vmware.log").write_bytes(
        "".join(good[:3]).encode()
        + b"no head that anybody knows\n"
        + b"2019-05-06T07:08:10.000Z| vmx| I120: caf\xe9 \xff\xfe\n"
        + b"2019-05-06T07:08:11.000Z| vmx| I120: "
        + b"x" * 10_000_000
        + b"\n"
        + "".join(good[3:]).encode()
    )
    (folder / "vmware-2.log").write_bytes(b"")
    (tmp_path / "vmkernel.log").write_bytes(bytes(range(256)) * 4096)
    (tmp_path / "nothing").mkdir()

    done = pipeline.run(
        "replay", folder.parents[3], tmp_path / "vmkernel.log", tmp_path / "nothing", code=1
    )
    for said in ("empty", "binary data", "no ESXi log in this folder", "vmware-1.log.gz"):
        assert said in done.stderr
    assert "lines = stored" in done.stderr
    durations = pipeline.rows("SELECT duration_us FROM stuns WHERE vm = 'vm09' ORDER BY ALL")
    assert [each for (each,) in durations] == [90_001 + second for second in range(9)]
    assert pipeline.one(
        "SELECT message FROM log_lines WHERE vm='vm09' AND message LIKE 'caf%'"
    ) == ("café ÿþ")
    assert pipeline.one("SELECT count() FROM log_lines WHERE vm = 'vm09' AND truncated") == 1
    reasons = pipeline.rows(
        f"SELECT reason, line FROM rejected_lines WHERE startsWith(file, '{tmp_path}')"
    )
    assert ("no head pattern matches", "no head that anybody knows") in reasons
    assert {reason for reason, _ in reasons} == {"no head pattern matches", "binary data"}


def test_a_line_that_is_lost_is_told(pipeline: Pipeline, tmp_path: Path) -> None:
    log = tmp_path / "vmware.log"
    log.write_text("".join(stun_line(f"2018-05-06T07:08:0{second}.000Z", 700) for second in "123"))
    words = ("--vm", "lossy", "--datastore", "ds", "--host", "esx08")
    pipeline.run("replay", log, *words)
    # A row that goes, and another that once was rejected and is stored now: one does not hide
    # the other.
    generation = pipeline.one("SELECT any(generation) FROM log_lines WHERE vm = 'lossy'")
    offset = pipeline.one("SELECT max(offset) FROM log_lines WHERE vm = 'lossy'")
    admin = as_user(pipeline.settings, "admin")
    outcome = Outcome("test", read=3)
    count(pipeline.reader, [(str(log), generation, log.stat().st_size, 3)], outcome)
    assert (outcome.stored, outcome.rejected, outcome.missing) == (3, 0, {})
    admin.command(f"DELETE FROM log_lines_stored WHERE vm = 'lossy' AND offset = {offset}")
    admin.command(
        "INSERT INTO rejected_lines_stored"
        " (received_at, source, generation, offset, run_id, reason)"
        f" VALUES (now64(), 'vmware_log', '{generation}', 0, 'old', 'no pattern')"
    )
    outcome = Outcome("test", read=3)
    count(pipeline.reader, [(str(log), generation, log.stat().st_size, 3)], outcome)
    assert (outcome.stored, outcome.rejected, outcome.missing) == (2, 0, {str(log): 1})
    pipeline.run("replay", log, *words)


def test_a_path_that_is_not_there_is_one_sentence(pipeline: Pipeline) -> None:
    done = pipeline.run("replay", "/no/such/file.log", code=2)
    assert "no such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_words_are_found_in_any_case(pipeline: Pipeline) -> None:
    pipeline.run("replay", INCIDENT)
    found = pipeline.one("SELECT count() FROM log_lines_with(words = 'checkpoint_unstun STOPPED')")
    wanted = pipeline.one("SELECT count() FROM log_lines WHERE message ILIKE '%checkpoint_unstun%'")
    assert found == wanted > 0


def test_every_byte_of_a_replayed_file_is_covered(pipeline: Pipeline) -> None:
    pipeline.run("replay", INCIDENT)
    files = pipeline.rows(
        f"SELECT file, bytes_seen, gap_bytes FROM coverage WHERE startsWith(file, '{INCIDENT}')"
    )
    sizes = {str(path): path.stat().st_size for path in INCIDENT.rglob("*.log")}
    assert {file: size for file, size, _ in files} == sizes
    assert {gap for _, _, gap in files} == {0}
