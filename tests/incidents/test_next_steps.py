"""Every next step has evidence, precondition and risk; none of high risk lacks proof."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stunwatch.engine.correlating import LIVE_EVERY_US
from stunwatch.incidents.configuration import CLOSING_US
from stunwatch.incidents.correlator import Correlator, Incident
from stunwatch.incidents.grouping import Trouble
from stunwatch.incidents.next_steps import CONDITIONS, EVIDENCE, Case, Rule, Step, next_steps, rules
from stunwatch.incidents.signals import Signal
from stunwatch.incidents.topology import Topology
from tests.incidents.scenario import CASES, cases, events, final_rows, known_us, load, until_us

SECOND_US = 1_000_000
SCOPES = ("vm", "device", "host", "array_or_fabric", "array", "fabric")
LUN, OTHER = "naa.60060e8000000000000000000000000a", "naa.60060e8000000000000000000000000b"
VML = "vml.020007000060060e8000000000000000000000000a4f50454e2d56"
KINDS: dict[str, dict[str, Any]] = {
    "slow": {"kind": "slow", "detail": "esxtop", "size": 991.0},
    "slow_log": {"kind": "slow_log", "detail": "davg", "size": 331.0},
    "queue": {"kind": "queue", "detail": "esxtop", "size": 12.0},
    "stuck": {"kind": "conflict", "detail": "failed", "is_stuck": True},
    "failed_conflict": {"kind": "conflict", "detail": "failed"},
    "recovered_conflict": {"kind": "conflict", "detail": "recovered"},
    "open_conflict": {"kind": "conflict", "detail": "open"},
    **{
        name: {"kind": "path", "detail": name, "size": 1}
        for name in (
            *("path_dead", "apd_start", "apd_timeout", "pdl", "lost_access"),
            *("heartbeat_timeout", "ats_miscompare"),
        )
    },
    "errors": {"kind": "scsi", "detail": "H:0x5 D:0x0 P:0x0", "size": 40},
    "busy": {"kind": "scsi", "detail": "H:0x0 D:0x8 P:0x0", "size": 40},
    **{
        f"stun_{cause}": {"kind": "stun", "detail": cause, "size": 40_000_000}
        for cause in ("snapshot_create", "snapshot_create_memory", "snapshot_remove", "unknown")
    },
    "not_converging": {"kind": "consolidation", "detail": "not_converging"},
    **{
        f"removal_{reason or 'unexplained'}": {
            "kind": "consolidation",
            "detail": "failed",
            "reasons": (reason,) if reason else (),
        }
        for reason in ("lock", "space", "cancel", "")
    },
    "unmap": {"kind": "unmap", "detail": "fell_back", "size": 8000},
}
"""One signal per kind, as created by incidents.signals."""


def signal(name: str, at_s: int = 0, place: str = LUN, host: str = "esx1") -> Signal:
    at_us = at_s * SECOND_US
    return Signal(
        **{
            "event_id": f"{name} {at_s} {place} {host}",
            "at_us": at_us,
            "until_us": at_us + 4 * SECOND_US,
            "known_us": at_us + 4 * SECOND_US,
            "host": host,
            "vm": "sql01",
            "datastore": "gold",
            "device": place,
            "place": place,
            **KINDS[name],
        }
    )


def case_of(
    signals: list[Signal], scope: str, topology: Topology | None = None, now_s: int = 5
) -> Case:
    trouble = Trouble({LUN}, signals, scope=scope, founding=signals[:1])
    return Case(trouble, topology or Topology(), now_s * SECOND_US, "02:10 UTC", {"esx1"})


def check(steps: list[Step], ids: set[str]) -> None:
    """Check what must be true of the steps of every incident."""
    assert steps
    assert steps[0]["risk_level"] in ("none", "low")
    for each in steps:
        assert each["evidence_ids"]
        assert set(each["evidence_ids"]) <= ids
        assert each["because"]
        assert each["precondition"]
        assert each["risk"]
        has_risk = each["risk_level"] != "none"
        assert has_risk != each["risk"].startswith("None")
        assert has_risk != each["precondition"].startswith("None")
        # No placeholder is left, and an empty value leaves no gap.
        assert not re.search(r"[{}]|  | ,|\( ?\)", f"{each['step']} {each['because']}"), each


# == Rules


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_a_rule_has_evidence_precondition_and_risk(rule: Rule) -> None:
    assert rule.evidence in EVIDENCE
    assert {*rule.when, *rule.proof} <= CONDITIONS.keys()
    assert set(rule.scopes) <= set(SCOPES)
    assert (rule.risk_level == "high") == bool(rule.proof)
    says_none = [each.startswith("None") for each in (rule.precondition, rule.risk)]
    assert says_none == [rule.risk_level == "none"] * 2
    for text in (rule.step, rule.precondition, rule.risk):
        assert text[0].isupper() or text[0] in '{"'
        assert not text.endswith(".")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_a_rule_advises_no_harmful_action(rule: Rule) -> None:
    """A harmful action may occur as a risk, or with words that forbid it."""
    step = re.sub(r"do not [\w ]+", "", rule.step)
    assert not re.search(r"power.?off|perennial|delete from|(disable|off) .*heartbeat", step)
    assert "heartbeat" not in step or "leave the ATS heartbeat on" in step
    if re.search(r"LUN reset|round robin, one|remove the disk", step):
        assert rule.risk_level == "high"
    if "delete" in step:
        assert "delete no file" in step


def test_rule_names_are_unique_and_every_function_is_used() -> None:
    assert len({each.name for each in rules()}) == len(rules())
    assert {each.evidence for each in rules()} == EVIDENCE.keys()
    assert {name for each in rules() for name in (*each.when, *each.proof)} == CONDITIONS.keys()


# == Steps


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_every_incident_of_a_case_has_safe_steps(path: Path) -> None:
    case = load(path)
    for row in final_rows(sorted(events(case), key=known_us), case["until"], LIVE_EVERY_US):
        if row.severity == "notice":
            assert row.next_steps == []
        else:
            check(row.next_steps, set(row.evidence_ids))


@pytest.mark.parametrize(("scope", "kind"), list(product(SCOPES, KINDS)))
def test_every_kind_of_incident_has_a_safe_step(scope: str, kind: str) -> None:
    for place in (LUN, "datastore gold", "host esx1", "vm sql01"):
        found = signal(kind, place=place)
        check(next_steps(case_of([found], scope)), {found.event_id})


FOUNDING = [
    *(("device", kind) for kind in KINDS if kind not in ("recovered_conflict", "unmap")),
    *(("vm", kind) for kind in KINDS if kind.startswith(("stun", "not_", "removal"))),
    *(("host", kind) for kind in ("slow", "slow_log", "queue", "path_dead", "apd_start")),
    *product(("array", "array_or_fabric", "fabric"), ("slow", "slow_log", "apd_start")),
]


@pytest.mark.parametrize(
    ("scope", "kind"), [each for each in FOUNDING if each[1] != "open_conflict"]
)
def test_every_signal_that_makes_an_incident_has_a_specific_step(scope: str, kind: str) -> None:
    steps = next_steps(case_of([signal(kind)], scope))
    assert not steps[0]["step"].startswith("Change nothing yet")


def test_the_evidence_of_a_step_is_limited() -> None:
    storm = [signal("stun_snapshot_remove", at_s) for at_s in range(1000)]
    for each in next_steps(case_of(storm, "device")):
        assert len(each["evidence_ids"]) == 20


# == Steps of high risk


def proven() -> Topology:
    """Return an inventory in which esx1 and esx2 prove VMFS without raw mappings on the LUN."""
    topology = Topology()
    for host in ("esx1", "esx2"):
        topology.learn(item("listing", "", "vmfs extent list", host))
        topology.learn(item("extent", LUN, "vmfs extent list", host))
        topology.learn(item("listing", "", "vmkfstools -q", host))
    topology.learn(item("device", LUN, "nmp device list") | {"path_policy": "VMW_PSP_FIXED"})
    return topology


def item(
    kind: str, device: str, told_by: str, host: str = "esx1", at: str = "2026-03-01T00:00:00Z"
) -> dict[str, Any]:
    """Return an item of inventory, as defined in schemas/inventory_item.v1."""
    said = {"kind": kind, "device": device, "told_by": told_by, "host": host, "observed_at": at}
    return {**said, "is_deleted": 0, "datastore": "gold", "datastore_uuid": ""}


def dangerous(case: Case) -> list[str]:
    return [each["step"] for each in next_steps(case) if each["risk_level"] == "high"]


@pytest.mark.parametrize("kind", ["stuck", "slow"])
def test_complete_proof_allows_the_dangerous_step(kind: str) -> None:
    assert len(dangerous(case_of([signal(kind)], "device", proven()))) == 1


def _mapped_by_another_name(topology: Topology) -> None:
    topology.devices[LUN].other_names.add("vml.01000000002020")
    topology.raw_mappings["esx2"].devices.add("vml.01000300002020")


WITHOUT: dict[str, Callable[[Topology], object]] = {
    "everything": lambda topology: vars(topology).update(vars(Topology())),
    "extents of the host": lambda topology: topology.extents.pop("esx1"),
    "the whole list of extents": lambda topology: setattr(
        topology.extents["esx1"], "is_complete", False
    ),
    "the LUN among the extents": lambda topology: topology.extents["esx1"].devices.clear(),
    "raw mappings of the host": lambda topology: topology.raw_mappings.pop("esx1"),
    "raw mappings of another host": lambda topology: topology.raw_mappings.pop("esx2"),
    "the whole list of raw mappings": lambda topology: setattr(
        topology.raw_mappings["esx1"], "is_complete", False
    ),
    "a datastore": lambda topology: topology.devices[LUN].datastores.clear(),
    "a LUN that no cluster reserves": lambda topology: setattr(
        topology.devices[LUN], "is_perennially_reserved", True
    ),
    "a LUN that no VM maps": lambda topology: topology.raw_mappings["esx2"].devices.add(VML),
    "a LUN that no VM maps by its own name": lambda topology: topology.raw_mappings[
        "esx2"
    ].devices.add(LUN),
    "a LUN that no VM maps by another name": _mapped_by_another_name,
}
"""Functions that each remove one fact from the proof."""


@pytest.mark.parametrize("kind", ["stuck", "slow"])
@pytest.mark.parametrize("what", WITHOUT)
def test_one_missing_fact_forbids_the_dangerous_step(kind: str, what: str) -> None:
    topology = proven()
    WITHOUT[what](topology)
    assert dangerous(case_of([signal(kind)], "device", topology)) == []


def test_a_host_that_only_sends_logs_forbids_the_step() -> None:
    case = case_of([signal("stuck")], "device", proven())
    assert dangerous(case)
    assert dangerous(replace(case, seen={"esx1", "esx9"})) == []


def test_a_conflict_that_is_over_forbids_the_reset() -> None:
    held_s = CLOSING_US // SECOND_US
    signals = [signal("stuck"), signal("slow", 60)]
    assert len(dangerous(case_of(signals, "device", proven(), now_s=held_s))) == 2
    assert len(dangerous(case_of(signals, "device", proven(), now_s=held_s + 5))) == 1
    later = [signal("stuck"), signal("recovered_conflict", 20)]
    assert dangerous(case_of(later, "device", proven(), now_s=30)) == []


def test_a_second_stuck_lun_without_proof_forbids_the_reset() -> None:
    signals = [signal("stuck"), signal("stuck", place=OTHER)]
    assert dangerous(case_of(signals, "device", proven())) == []


EARLIER, LATER = "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"
PROOF = [
    (*what, host)
    for host in ("esx1", "esx2")
    for what in (
        ("listing", "", "vmfs extent list"),
        ("extent", LUN, "vmfs extent list"),
        ("extent", OTHER, "vmfs extent list"),
        ("listing", "", "vmkfstools -q"),
    )
]
"""The complete proof: kind of item, device, command, host."""

EXTRA = st.tuples(
    st.sampled_from([("raw_device_mapping", VML, "vmkfstools -q"), *(each[:3] for each in PROOF)]),
    st.sampled_from(["esx1", "esx2", "esx3"]),
    st.sampled_from([EARLIER, LATER]),
).map(lambda each: (*each[0], each[1], each[2]))


@settings(max_examples=200, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(["stuck", "slow", "recovered_conflict", "errors"]), max_size=3),
    spots=st.lists(st.tuples(st.sampled_from([LUN, OTHER]), st.sampled_from(["esx1", "esx2"]))),
    missing=st.sets(st.sampled_from(PROOF), max_size=2),
    extra=st.lists(EXTRA, max_size=2),
    now_s=st.integers(0, 400),
)
def test_no_dangerous_step_appears_without_complete_proof(
    kinds: list[str],
    spots: list[tuple[str, str]],
    missing: set[tuple[str, str, str, str]],
    extra: list[tuple[str, str, str, str, str]],
    now_s: int,
) -> None:
    """The facts are derived from the items, independently of the rules."""
    items = [*((*each, EARLIER) for each in PROOF if each not in missing), *extra]
    topology = Topology()
    for device in (LUN, OTHER):
        topology.learn(item("device", device, "nmp device list") | {"path_policy": "VMW_PSP_FIXED"})
    for each in items:
        topology.learn(item(*each))
    found = zip(kinds, spots, strict=False)
    signals = [signal("slow"), *(signal(kind, 1, *spot) for kind, spot in found)]
    case = case_of(signals, "device", topology, now_s)
    check(next_steps(case), {each.event_id for each in signals})
    for step in dangerous(case):
        is_reset = "LUN reset" in step
        for each in signals:
            if each.is_stuck if is_reset else each.kind == "slow":
                assert each.place in _newest(items, "vmfs extent list", each.host)
                mapped = [_newest(items, "vmkfstools -q", host) for host in ("esx1", "esx2")]
                assert each.place == OTHER or VML not in set().union(*mapped)
        assert not is_reset or now_s * SECOND_US <= 5 * SECOND_US + CLOSING_US


def _newest(items: list[tuple[str, str, str, str, str]], told_by: str, host: str) -> set[str]:
    """Return the devices in the newest list of a host. Raise AssertionError if it is incomplete."""
    own = [
        (kind, device, at)
        for kind, device, by, at_host, at in items
        if (by, at_host) == (told_by, host)
    ]
    newest = max((at for *_, at in own), default="")
    assert any(kind == "listing" and at == newest for kind, _, at in own)
    return {device for _, device, at in own if at == newest} - {""}


# == Changes over time


def test_the_reset_disappears_when_the_conflict_is_over_without_another_event() -> None:
    case = load(CASES / "stuck_reservation_long_ago.yaml")
    correlator, topology = Correlator("case", LIVE_EVERY_US), Topology()
    bands: dict[str, Any] = {}
    rows: list[Incident] = []
    for topic, event in sorted(events(case), key=known_us):
        rows += correlator.feed(topic, event, bands, topology)
    rows += correlator.advance_time(correlator.now_us + LIVE_EVERY_US, topology)
    assert any("send a LUN reset" in each["step"] for each in rows[-1].next_steps)
    due_us = correlator.next_timer_us
    assert due_us is not None
    rows = list(correlator.advance_time(due_us, topology))
    assert due_us < until_us(case)
    assert [each for row in rows for each in row.next_steps if "LUN reset" in each["step"]] == []
    assert [row.state for row in rows] == ["open"]


def test_state_of_an_older_version_loads_and_proves_nothing() -> None:
    topology = proven()
    for name in ("extents", "raw_mappings"):
        delattr(topology, name)
    del topology.devices[LUN].other_names
    read: Topology = pickle.loads(pickle.dumps(topology))
    assert dangerous(case_of([signal("stuck")], "device", read)) == []
    read.learn(item("device", LUN, "core device list") | {"other_names": [VML]})
    assert read.devices[LUN].other_names == {VML}


@pytest.mark.parametrize("wrong", [["naa.1", 7], 7, "naa.1", {"naa.1": 1}])
def test_other_names_that_are_not_strings_are_rejected(wrong: Any) -> None:
    topology = Topology()
    with pytest.raises(TypeError):
        topology.learn(item("device", LUN, "core device list") | {"other_names": wrong})
    assert not topology.devices
