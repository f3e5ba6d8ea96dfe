"""The comparison reports every way in which incidents can be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.comparison import belongs, judge

Row = dict[str, Any]
HOSTS = ["esx01-lun7.sim.example", "esx02-lun7.sim.example"]


def names(*least: str, more: tuple[str, ...] = ()) -> Row:
    return {"least": list(least), "more": list(more)}


def truth(*incidents: Row) -> Row:
    return {
        "evening": "slow_lun",
        "name": "lun7",
        "started_at": "2021-03-01T20:00:00.000000Z",
        "incidents": list(incidents),
    }


def incident(**more: Any) -> Row:
    return {
        "title": "one LUN is slow",
        "scopes": ["device"],
        "hosts": names(*HOSTS),
        "devices": names("naa.1"),
        "datastores": names("granite-lun7-01"),
        "vms": names("sql01-lun7", more=("web02-lun7",)),
        "first_line_at": "2021-03-01T20:10:00.000000Z",
        "cause_started_at": "2021-03-01T20:09:58.000000Z",
        "cause_ended_at": "2021-03-01T20:30:00.000000Z",
        "is_note": False,
        "is_optional": False,
        "next_steps": ["firmware"],
        "no_next_steps": ["LUN reset"],
        **more,
    }


def row(**more: Any) -> Row:
    return {
        "incident_id": "1",
        "opened_at": "2021-03-01 20:10:00.000",
        "detected_at": "2021-03-01 20:11:10.000",
        "closed_at": "2021-03-01 20:30:20.000",
        "state": "closed",
        "scope": "device",
        "verdict": "A LUN is slow.",
        "next_steps": [{"step": "Check the firmware.", "because": "", "kb": None, "against": None}],
        "hosts": HOSTS,
        "devices": ["naa.1"],
        "datastores": ["granite-lun7-01"],
        "vms": ["sql01-lun7"],
        **more,
    }


def test_a_correct_incident_among_those_of_other_scenarios_has_no_errors() -> None:
    stranger = row(hosts=["esx01-lun70.sim.example"], datastores=[], vms=[])
    judgement = judge(truth(incident()), [stranger, row()])
    assert not judgement.problems
    assert judgement.figures == [
        "slow_lun (lun7): one LUN is slow: device, closed; detected after 70 s; closed after 20 s"
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"scope": "host"}, "wrong scope host, not device"),
        ({"state": "noted"}, "noted, and it is not usual"),
        ({"hosts": HOSTS[:1]}, "hosts lack ['esx02-lun7.sim.example']"),
        ({"vms": ["sql01-lun7", "dc03-lun7"]}, "vms wrongly hold ['dc03-lun7']"),
        ({"detected_at": "2021-03-01 20:11:31.000"}, "detected after 0:01:31"),
        ({"closed_at": None, "state": "open"}, "never closed"),
        ({"closed_at": "2021-03-01 20:35:01.000"}, "closed 0:05:01 after its cause's end"),
        ({"next_steps": []}, "no next step says firmware"),
        (
            {"next_steps": [{"step": "A LUN reset, and firmware", "because": ""}]},
            "a next step says LUN reset",
        ),
    ],
)
def test_every_wrong_field_is_reported(wrong: Row, said: str) -> None:
    [problem] = judge(truth(incident()), [row(**wrong)]).problems
    assert said in problem


def test_missing_and_extra_incidents_are_reported() -> None:
    assert judge(truth(incident()), []).problems == ["slow_lun (lun7): missing: one LUN is slow"]
    host = row(scope="host", devices=[], datastores=[], vms=[])
    judgement = judge(truth(incident()), [host, row()])
    assert judgement.problems == ["slow_lun (lun7): one too many: host, closed: A LUN is slow."]
    assert judge(truth(), [row()]).extra


def test_incidents_are_matched_to_rows_by_their_names() -> None:
    other = incident(
        title="storm",
        devices=names(more=("naa.2",)),
        datastores=names("basalt-lun7-01"),
        vms=names("app05-lun7"),
        is_note=True,
        next_steps=[],
    )
    rows = [
        row(devices=["naa.2"], datastores=["basalt-lun7-01"], vms=["app05-lun7"], state="noted"),
        row(),
    ]
    assert not judge(truth(incident(), other), rows).problems


def test_optional_incidents_may_be_missing() -> None:
    small = incident(is_optional=True, next_steps=[])
    assert not judge(truth(small), []).problems
    assert not judge(truth(small), [row()]).problems


def test_incidents_of_earlier_nights_are_ignored() -> None:
    assert not judge(truth(incident()), [row(opened_at="2021-02-28 20:10:00.000"), row()]).extra


def test_a_site_name_does_not_match_one_that_it_is_a_prefix_of() -> None:
    assert belongs(row(), "lun7")
    assert not belongs(row(), "lun")
    assert not belongs(row(hosts=["esx01-lun7x.sim"], datastores=["a pool lun71"], vms=[]), "lun7")
