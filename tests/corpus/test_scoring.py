"""The scorer counts each event once, and reports mistakes by case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.__main__ import main, read
from tests.corpus.cases import Case, cases
from tests.corpus.scoring import fits, matches, score

STUN = {
    "type": "stun",
    "vm": "web01",
    "ended_at": "2024-05-06T07:08:09.123000Z",
    "duration_us": 1_000_000,
    "cause": "vmotion",
}


def case(name: str, *events: dict[str, Any], missed: str = "") -> Case:
    return Case("made", name, "", "", "host", "a.log", ("a line",), (), events, "", missed)


def test_the_expected_events_score_one() -> None:
    report = score(cases(), {each.id: each.events for each in cases()})
    total = report.total
    assert (total.precision, total.recall, total.wrong) == (1, 1, 0)
    assert total.true > 100
    assert not report.false_on_quiet


def test_empty_results_score_zero_recall() -> None:
    report = score(cases(), {})
    assert (report.total.recall, report.total.found) == (0, 0)


def test_duplicates_and_fragments_are_false_signals() -> None:
    half = STUN | {"duration_us": 500_000}
    report = score([case("a", STUN)], {"a": [STUN, STUN, half]})
    assert (report.total.matched, report.total.found) == (1, 3)
    assert report.false == {"a": 2}


def test_a_match_with_a_wrong_cause_counts_as_a_match_and_an_error() -> None:
    report = score([case("a", STUN)], {"a": [STUN | {"cause": "unknown"}]})
    assert (report.total.matched, report.total.wrong) == (1, 1)


@pytest.mark.parametrize(
    ("changed", "is_same"),
    [
        ({"ended_at": "2024-05-06T07:08:09Z"}, True),
        ({"ended_at": "2024-05-06T09:08:09.123+02:00"}, True),
        ({"ended_at": "2024-05-06T07:08:11Z"}, False),
        ({"ended_at": "2024-05-06T07:08:09.123"}, False),
        ({"ended_at": None}, False),
        ({"duration_us": 1_009_000}, True),
        ({"duration_us": 1_011_000}, False),
        ({"duration_us": "1000000"}, False),
        ({"duration_us": True}, False),
        ({"vm": "web02"}, False),
        ({"type": "path"}, False),
        ({"note": "more fields are welcome"}, True),
    ],
)
def test_identifying_fields_may_differ_only_by_rounding(
    changed: dict[str, Any], is_same: bool
) -> None:
    assert fits(STUN, STUN | changed) is is_same


def test_the_largest_set_of_pairs_is_found() -> None:
    loose = {"type": "path", "kind": "path_dead"}
    exact = loose | {"path": "vmhba1:C0:T0:L0"}
    other = loose | {"path": "vmhba2:C0:T0:L0"}
    assert matches([loose, exact], [exact, other]) == {0: 1, 1: 0}


def test_extra_events_count_against_quiet_cases_but_not_against_missed_ones() -> None:
    report = score(
        [case("quiet"), case("missed", missed="No detector.")], {"quiet": [STUN], "missed": [STUN]}
    )
    assert report.false_on_quiet == {"quiet": 1}
    assert report.total.found == 1


def written(path: Path, *results: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in results))
    return str(path)


def test_the_score_command_exits_with_1_below_a_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = [{"case": each.id, "events": each.events} for each in cases()]
    assert main(["score", written(tmp_path / "all.jsonl", *truth)]) == 0
    one_short = [each for each in truth if each["case"] != "vmware_log-seed0-1"]
    short = written(tmp_path / "short.jsonl", *one_short)
    assert main(["score", short]) == 1
    assert "not found: vmware_log-seed0-1: stun" in capsys.readouterr().out
    assert main(["score", short, "--recall", "0.95"]) == 0
    assert main(["score", written(tmp_path / "x.jsonl", *truth, {"case": "x", "events": []})]) == 1


@pytest.mark.parametrize("line", ["[]", "{", '{"case": "a"}', '{"case": "a", "events": [1]}'])
def test_an_invalid_result_line_is_reported_by_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(f'\n{{"case": "a", "events": []}}\n{line}\n')
    with pytest.raises(ValueError, match="line 3"):
        read(path)
    assert main(["score", str(path)]) == 2
