"""For a name that no log, event or inventory has, commands warn or fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stunwatch.investigations import investigations
from stunwatch.known_names import KINDS, why_unknown
from tests.clickhouse_server import Server
from tests.pipeline import in_this_process

LUN = "naa.60060e80000000000000000000000a01"
VM = "<b>sql01</b>"


@pytest.fixture(scope="module")
def known(server: Server) -> Iterator[Server]:
    server.admin.command(
        "INSERT INTO inventory_stored (event_id, revision, host, observed_at, kind, device,"
        " datastore, datastore_uuid) VALUES (generateUUIDv4(), 1, 'esx01.lab.example', now64(6),"
        f" 'extent', '{LUN}', 'ds-gold', '4f1a2b3c')"
    )
    server.admin.command(
        "INSERT INTO owners_seen_stored (host, vm, datastore, seen_at)"
        f" VALUES ('esx01.lab.example', '{VM}', 'ds-gold', now64(3))"
    )
    yield server
    server.admin.command("TRUNCATE TABLE changes_stored")


@pytest.mark.parametrize(
    ("kind", "typed", "found"),
    [
        ("host", "esx01", ""),
        ("host", "ESX01.LAB.EXAMPLE", ""),
        ("host", "esx1", "Did you mean esx01"),
        ("vm", VM.upper(), ""),
        ("vm", "sql01", "No log, event or inventory has the VM sql01."),
        ("datastore", "4f1a2b3c", ""),
        ("datastore", "ds-glod", "Did you mean ds-gold?"),
        ("datastore", "nosuch", "No log, event or inventory has the datastore nosuch."),
        ("device", LUN[:-1] + "2", f"Did you mean {LUN}?"),
        ("device", "x' OR 1 --", "No log, event or inventory has the LUN or path x' OR 1 --."),
    ],
)
def test_an_unknown_name_suggests_a_similar_one(
    known: Server, kind: str, typed: str, found: str
) -> None:
    said = why_unknown(known.reader, kind, typed)
    assert found in said if found else not said


def test_a_part_of_a_name_is_enough_if_parts_are_allowed(known: Server) -> None:
    assert not why_unknown(known.reader, "vm", "SQL", is_part=True)
    assert why_unknown(known.reader, "vm", "web", is_part=True)


def test_a_change_with_an_unknown_datastore_is_stored_but_not_compared(known: Server) -> None:
    environment = known.settings.environment()
    add = ["change", "add", "--kind", "array", "--title", "5.2.1", "--at", "-2h"]
    done = in_this_process([*add, "--datastore", "ds-gold"], environment)
    assert done.returncode == 0
    assert "Warning" not in done.stderr
    assert "before_and_after_change" in done.stderr
    done = in_this_process([*add, "--at", "-1h", "--datastore", "nosuch"], environment)
    assert done.returncode == 0
    assert "Warning: No log, event or inventory has the datastore nosuch." in done.stderr
    assert "before_and_after_change" not in done.stderr
    done = in_this_process(["sql", "before_and_after_change"], environment)
    assert done.returncode == 2
    assert "datastore nosuch" in done.stderr
    assert not done.stdout


def test_a_mute_of_an_unknown_lun_warns(known: Server) -> None:
    words = ["incident", "mute", "--device", LUN[:-1] + "2", "--for", "1h", "--reason", "test"]
    done = in_this_process(words, known.settings.environment())
    assert done.returncode == 0
    assert f"Did you mean {LUN}?" in done.stderr
    assert "suppresses nothing" in done.stderr


NAMED = [
    (name, parameter)
    for name, each in investigations().items()
    for parameter in each.defaults
    if parameter in KINDS
]


def test_every_investigation_rejects_an_unknown_name(known: Server) -> None:
    """An empty result would look as if nothing were wrong."""
    environment = known.settings.environment()
    assert len(NAMED) > 20
    for name, parameter in [*NAMED, ("reservation_holders", "name")]:
        words = ["sql", name, "--param", f"{parameter}=nosuch"]
        if "at" in investigations()[name].defaults:
            words += ["--param", "at=2012-03-15 02:13"]
        done = in_this_process(words, environment)
        assert done.returncode == 2, words
        assert f"--param {parameter}=nosuch: No log, event or inventory has the" in done.stderr
        assert not done.stdout


def test_an_investigation_of_a_known_name_runs(known: Server) -> None:
    words = ["sql", "longest_stuns", "--param", "vm=SQL01"]
    done = in_this_process(words, known.settings.environment())
    assert done.returncode == 0, done.stderr
