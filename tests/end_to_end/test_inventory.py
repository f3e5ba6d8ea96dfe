"""Inventory: loaded items, their periods of validity, and the LUN of a stunned VM."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.end_to_end.conftest import Replayed
from tests.end_to_end.logs import TEACHING_HOST
from tests.end_to_end.made import HOUR, MINUTE, line, moment, sample, store, stun
from tests.inventory.golden import CASES
from tests.pipeline import Pipeline

# The rows include events without lines, and lines without their events.
pytestmark = pytest.mark.made_up

INPUTS = {case.name: case / "input.txt" for case in CASES}
UUID = "5f2a77c1-9be0d6d2-41aa-0025b5aa00{0:02x}"


def extents(folder: Path, *rows: tuple[str, int, str]) -> Path:
    """Write `vmfs extent list` of (datastore, number of its UUID, device)."""
    text = "Volume Name  VMFS UUID  Extent Number  Device Name  Partition\n"
    text += "-----------  ---------  -------------  -----------  ---------\n"
    for datastore, number, device in rows:
        text += f"{datastore}  {UUID.format(number)}              0  {device}          1\n"
    file = folder / "extents.txt"
    file.write_text(text)
    return file


def load(pipeline: Pipeline, file: Path, host: str, at: str = "2020-01-01") -> str:
    return pipeline.run("inventory", "load", file, "--host", host, "--at", at).stderr


def luns(pipeline: Pipeline, **parameters: Any) -> list[dict[str, Any]]:
    words = [f"--param={name}={value}" for name, value in parameters.items()]
    done = pipeline.run("sql", "stun_and_its_lun", *words, "--format", "JSONEachRow")
    return [orjson.loads(each) for each in done.stdout.splitlines()]


def test_loading_all_outputs_of_a_host_twice_stores_them_once(pipeline: Pipeline) -> None:
    file = INPUTS["esxi55_everything_of_a_host"]
    words = ("inventory", "load", file, "--at", "2012-04-01")
    assert "Loaded 3 extents, 5 devices" in pipeline.run(*words).stderr
    shown = """
        SELECT datastore, partition, vendor, path_policy, vaai_ats, is_local, device_class,
            length(paths), is_rdm
        FROM inventory WHERE host = 'esx01.lab.example' AND is_local IS NOT NULL ORDER BY datastore
    """
    before = pipeline.rows(shown)
    assert before == [
        ("eql-pool-1", 1, "EQLOGIC", "VMW_PSP_FIXED", "supported", False, "disk", 2, None),
        ("local-esx01", 3, "Dell", None, None, True, "boot", 0, None),
    ]
    stored = pipeline.one("SELECT count() FROM inventory_stored FINAL")
    pipeline.run(*words)
    assert pipeline.rows(shown) == before
    assert pipeline.one("SELECT count() FROM inventory_stored FINAL") == stored
    aliases = pipeline.rows("SELECT alias FROM host_aliases WHERE host = 'esx01.lab.example'")
    assert {"esx01", "192.0.2.11", "198.51.100.11"} <= {alias for (alias,) in aliases}


def test_a_datastore_that_was_moved_renamed_and_removed_has_periods(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    host = "esx31.lab.example"
    times = ("2020-01-01", "2020-02-01", "2020-03-01", "2020-04-01", "2020-05-01")
    for at, rows in zip(
        times,
        (
            [("gold", 1, "naa.31a")],
            [("gold", 1, "naa.31a")],
            [("gold", 1, "naa.31b")],
            [("gold-old", 1, "naa.31b"), ("new", 2, "naa.31c")],
            [("new", 2, "naa.31c")],
        ),
        strict=True,
    ):
        load(pipeline, extents(tmp_path, *rows), host, at)
    at = "'%Y-%m'"
    found = pipeline.rows(
        f"SELECT device, datastore, formatDateTime(valid_from, {at}),"
        f" formatDateTime(valid_until, {at}), formatDateTime(observed_at, {at})"
        f" FROM inventory WHERE host = '{host}' ORDER BY ALL"
    )
    assert found == [
        ("naa.31a", "gold", "1970-01", "2020-03", "2020-01"),
        ("naa.31b", "gold", "2020-03", "2020-04", "2020-03"),
        ("naa.31b", "gold-old", "2020-04", "2020-05", "2020-04"),
        ("naa.31c", "new", "2020-04", None, "2020-04"),
    ]
    for moment_, device, is_assumed in (
        ("2019-06-01", "naa.31a", True),
        ("2020-02-15", "naa.31a", False),
        ("2020-03-01", "naa.31b", False),
    ):
        assert pipeline.rows(
            f"SELECT device, is_assumed FROM inventory_at(at = '{moment_}') WHERE host = '{host}'"
        ) == [(device, is_assumed)]


def test_the_order_of_loads_does_not_change_the_inventory(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    days = {
        "2020-01-01": [("a", 11, "naa.32a")],
        "2020-02-01": [("b", 12, "naa.32a")],
        "2020-03-01": [("a", 11, "naa.32a")],
    }
    for host, order in (("esx32f", list(days)), ("esx32b", list(days)[::-1])):
        for at in order:
            load(pipeline, extents(tmp_path, *days[at]), host, at)
    shown = "SELECT device, datastore, valid_from, valid_until FROM inventory WHERE host = '{0}'"
    forwards, backwards = (
        sorted(pipeline.rows(shown.format(host)), key=repr) for host in ("esx32f", "esx32b")
    )
    assert forwards == backwards
    assert len(forwards) == 3


def test_a_path_policy_is_valid_from_the_time_of_its_load(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    host = "esx33"
    load(pipeline, extents(tmp_path, ("x", 21, "naa.33a")), host, "2020-01-01")
    for at, policy in (("2020-01-02", "VMW_PSP_FIXED"), ("2020-02-02", "VMW_PSP_RR")):
        file = tmp_path / "nmp.txt"
        file.write_text(f"naa.33a\n   Path Selection Policy: {policy}\n")
        load(pipeline, file, host, at)
    shown = f"SELECT path_policy FROM inventory WHERE host = '{host}'"
    assert pipeline.rows(shown) == [("VMW_PSP_RR",)]
    load(pipeline, extents(tmp_path, ("y", 22, "naa.33a")), host, "2020-02-01")
    assert pipeline.rows(f"{shown} ORDER BY observed_at") == [("VMW_PSP_FIXED",), ("VMW_PSP_RR",)]


def test_raw_device_mappings_are_present_absent_or_unknown(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    devices = "".join(
        f"naa.6006016012345678c0ffee00{device}\n   Is Perennially Reserved: {reserved}\n"
        # Its LUN number differs from the one in the mapping.
        f"   Other UIDs: vml.02000900006006016012345678c0ffee00{device}524149442035\n"
        for device, reserved in (("99887766", "true"), ("aaaaaaaa", "false"))
    )
    file = tmp_path / "devices.txt"
    file.write_text(devices)
    shown = (
        "SELECT right(device, 8), is_perennially_reserved, is_rdm FROM inventory"
        " WHERE host = 'esx34' ORDER BY ALL"
    )
    load(pipeline, file, "esx34")
    assert pipeline.rows(shown) == [("99887766", True, None), ("aaaaaaaa", False, None)]
    load(pipeline, INPUTS["raw_device_mappings_of_a_windows_cluster"], "esx34")
    assert pipeline.rows(shown) == [("99887766", True, True), ("aaaaaaaa", False, False)]


def test_names_of_a_host_in_different_sources_are_joined(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    at = moment("2021-01-01 00:00")
    store(
        pipeline,
        [
            line("esx35.lab.example", at, peer="203.0.113.35"),
            line("esx35", at + MINUTE),
            sample("ESX35", "naa.35a", at, 1.0),
            # Two hosts have the same first label: the short name is ambiguous.
            line("esx36.lab.example", at),
            line("esx36.other.example", at),
            line("esx36", at),
            # A relay sends for many hosts.
            line("esx37", at, peer="203.0.113.99"),
            line("esx38", at, peer="203.0.113.99"),
        ],
    )
    load(pipeline, extents(tmp_path, ("d35", 31, "naa.35a")), "esx35")
    found = dict(pipeline.rows("SELECT alias, host FROM host_aliases"))
    full = "esx35.lab.example"
    assert {found.get(each) for each in ("esx35", "ESX35", "203.0.113.35")} == {full}
    assert not {"esx36", "203.0.113.99", full} & set(found)
    assert pipeline.rows("SELECT host FROM inventory WHERE device = 'naa.35a'") == [(full,)]


def test_the_latency_of_a_stunned_vms_lun_is_found(pipeline: Pipeline, tmp_path: Path) -> None:
    host, at = "esx41.lab.example", moment("2021-02-01 02:00")
    made = [stun(host, "gold41", "sql41", at, 90.0), line(host, at, vm="sql41", datastore="gold41")]
    for minute in range(-30, 1):
        now = at + minute * MINUTE
        is_stunned = minute >= -1
        made += [
            sample("esx41", "naa.41slow", now, 400.0 if is_stunned else 5.0),
            # Busier, but not below the VM.
            sample("esx41", "naa.41other", now, 900.0),
            sample("esx42", "naa.41slow", now, 350.0 if is_stunned else 5.0),
            sample("esx43", "naa.41slow", now, 6.0),
        ]
    store(pipeline, made)
    [row] = luns(pipeline, vm="sql41")
    assert (row["scope"], row["device"], row["peak_davg_ms"]) == ("host", "naa.41other", 900)
    load(pipeline, extents(tmp_path, ("gold41", 41, "naa.41slow")), "esx41", "2021-03-01")
    [row] = luns(pipeline, vm="sql41")
    assert (row["scope"], row["device"], row["peak_davg_ms"]) == ("lun", "naa.41slow", 400)
    assert row["hour_before_davg_ms"] < 10
    assert row["slow_on_other_hosts"] == ["esx42"]


def test_hosts_that_each_have_a_datastore_of_one_name_do_not_mix(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    at = moment("2021-04-01 02:00")
    made = []
    for number, host in ((51, "esx51"), (52, "esx52")):
        load(pipeline, extents(tmp_path, ("local", number, f"naa.{number}")), host)
        made += [stun(host, "local", f"vm{number}", at, 1.0)]
        made += [sample(host, f"naa.{number}", at - MINUTE / 2, float(number))]
    made += [stun("esx53", "local", "vm53", at, 1.0)]
    made += [stun("esx51", UUID.format(51), "vm54", at, 1.0)]
    store(pipeline, made)
    found = pipeline.rows(
        "SELECT vm, device FROM vm_storage WHERE match(vm, '^vm5[1-4]$') ORDER BY ALL"
    )
    assert found == [("vm51", "naa.51"), ("vm52", "naa.52"), ("vm54", "naa.51")]
    assert [row["scope"] for row in luns(pipeline, vm="vm53")] == ["none"]


def test_loaded_inventory_replaces_that_from_log_lines(
    pipeline: Pipeline, replayed: Replayed, tmp_path: Path
) -> None:
    host = TEACHING_HOST
    shown = f"SELECT device, datastore, length(evidence) FROM inventory WHERE host = '{host}'"
    assert pipeline.rows(shown) == [("naa.56", "taught", 1)]
    at = moment("2021-05-01 02:00")
    store(
        pipeline,
        [stun(host, "taught", "vm56", at, 1.0), sample(host, "naa.56", at - MINUTE / 2, 56.0)],
    )
    assert [row["device"] for row in luns(pipeline, vm="vm56")] == ["naa.56"]
    load(pipeline, extents(tmp_path, ("renamed", 56, "naa.56")), host, "2021-06-01")
    assert pipeline.rows(shown) == [("naa.56", "renamed", 0)]


def test_a_change_of_a_lun_is_judged_by_its_vms(pipeline: Pipeline, tmp_path: Path) -> None:
    at = moment("2021-05-01 00:00")
    made = []
    for vm, datastore, after_s in (("lun61", "ds61", 1.0), ("lun62", "ds62", 9.0)):
        for day in range(-10, 10):
            ended_at = at + timedelta(days=day) + 2 * HOUR
            made.append(stun("esx61", datastore, vm, ended_at, 9.0 if day < 0 else after_s))
            made.append(line("esx61", ended_at, vm=vm, datastore=datastore))
    store(pipeline, made)

    words = ("before_and_after_change", "--param=at=2021-05-01", "--param=device=naa.61")

    def judged() -> tuple[str, str]:
        done = pipeline.run("sql", *words, "--format", "JSONEachRow")
        rows = {row["measure"]: row for row in map(orjson.loads, done.stdout.splitlines())}
        row = rows["stun_duration_p99_s"]
        return row["verdict"], row["looked_at"]

    # A LUN without known datastores is not judged.
    assert "naa.61" in pipeline.run("sql", *words, code=2).stderr
    load(pipeline, extents(tmp_path, ("ds61", 61, "naa.61"), ("ds62", 62, "naa.62")), "esx61")
    assert judged() == ("better", "affected datastores")


def test_a_file_that_cannot_be_loaded_is_reported(pipeline: Pipeline, tmp_path: Path) -> None:
    none = INPUTS["text_that_is_none_of_them"]
    good = extents(tmp_path, ("gold71", 71, "naa.71"))
    done = pipeline.run("inventory", "load", none, good, "--host", "esx71", code=1)
    assert "esxcli storage vmfs extent list" in done.stderr
    assert pipeline.one("SELECT count() FROM inventory WHERE host = 'esx71'") == 1
    for words, told in (
        ((good,), "--host"),
        ((none,), "No inventory"),
        ((tmp_path / "missing",), "no such file"),
        ((good, "--host", "esx71", "--at", "2999-01-01"), "future"),
        ((good, "--host", "esx71", "--at", "soon"), "is not a time"),
    ):
        done = pipeline.run("inventory", "load", *words, code=2)
        # A sentence with a long path is wrapped.
        assert told in " ".join(done.stderr.split())
        assert "Traceback" not in done.stderr


def test_an_item_without_a_time_is_rejected_and_blocks_nothing(pipeline: Pipeline) -> None:
    item = {
        "event_id": "7a3f4c1e-5b0d-5c7e-9a61-2d3e4f5a6b70",
        "detector": "inventory",
        "revision": 1,
        "is_deleted": 0,
        "run_id": "made",
        "host": "esx81",
        "kind": "extent",
        "told_by": "log",
        "device": "naa.81",
        "datastore": "d81",
    }
    pipeline.produce(
        "events.inventory",
        orjson.dumps({**item, "observed_at": "tomorrow"}),
        orjson.dumps({**item, "observed_at": "2021-01-01T00:00:00Z"}),
    )
    pipeline.wait_for("SELECT count() FROM inventory WHERE host = 'esx81'", 1)
    pipeline.wait_for(
        "SELECT count() FROM rejected_lines"
        " WHERE reason = 'not an event: observed_at is not a UTC time'",
        1,
    )


@pytest.mark.parametrize("name", INPUTS)
def test_every_case_is_loaded_or_rejected_with_one_sentence(pipeline: Pipeline, name: str) -> None:
    is_none = name == "text_that_is_none_of_them"
    done = pipeline.run(
        "inventory", "load", INPUTS[name], "--host", "esx91", code=2 if is_none else 0
    )
    assert "Traceback" not in done.stderr
