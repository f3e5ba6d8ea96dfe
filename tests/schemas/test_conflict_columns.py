"""The view `reservation_conflicts` has separate columns for LUN, path and datastore."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clickhouse_server import Server

GOLD, SILVER = "naa.60060e80000000000000000000000a01", "naa.60060e80000000000000000000000a02"
PATH = "vmhba1:C0:T0:L7"

INVENTORY = [
    ("esx01.lab.example", "extent", GOLD, "ds-gold", []),
    ("esx02.lab.example", "extent", GOLD, "ds-gold", []),
    ("esx01.lab.example", "device", GOLD, "", [PATH]),
    # On another host, a path with the same name leads to another LUN.
    ("esx02.lab.example", "device", SILVER, "", [PATH, "vmhba1:C0:T0:L8"]),
    # Every host has its own datastore1.
    ("esx01.lab.example", "extent", "mpx.vmhba1:C0:T0:L0", "datastore1", []),
    ("esx02.lab.example", "extent", "mpx.vmhba2:C0:T0:L0", "datastore1", []),
]

EPISODE, HELD, STEPS = "device_status", "long_reservation", "sync_cr"
CASES = [
    # A stored row (host, dialect, device, path, datastore), and the columns in the view.
    (("esx01.lab.example", EPISODE, GOLD, "", ""), (GOLD, "", "ds-gold")),
    (("esx01.lab.example", EPISODE, GOLD, PATH, ""), (GOLD, PATH, "ds-gold")),
    (("esx01.lab.example", EPISODE, "", PATH, ""), (GOLD, PATH, "ds-gold")),
    (("esx02.lab.example", EPISODE, "", PATH, ""), (SILVER, PATH, "")),
    (("esx03.lab.example", EPISODE, "", PATH, ""), ("", PATH, "")),
    (("esx01.lab.example", STEPS, "", "vmhba1:0:7", ""), (GOLD, "vmhba1:0:7", "ds-gold")),
    (("esx01.lab.example", STEPS, "", "", ""), ("", "", "")),
    (("esx03.lab.example", HELD, "", "", "ds-gold"), (GOLD, "", "ds-gold")),
    (("esx01.lab.example", HELD, "", "", "datastore1"), ("", "", "datastore1")),
    # Rows of earlier versions.
    (("esx01.lab.example", STEPS, "vmhba1:0:7", "", ""), (GOLD, "vmhba1:0:7", "ds-gold")),
    (("esx01.lab.example", HELD, "naa.old", "", ""), ("", "", "naa.old")),
    (("esx01.lab.example", HELD, "ds-gold", "", ""), (GOLD, "", "ds-gold")),
    (("esx01.lab.example", EPISODE, "scsi0 (0,0,52)", "", ""), ("", "scsi0 (0,0,52)", "")),
]


@pytest.fixture(scope="module")
def conflicts(server: Server) -> Iterator[Server]:
    for host, kind, device, datastore, paths in INVENTORY:
        server.admin.command(
            "INSERT INTO inventory_stored (event_id, revision, host, observed_at, kind, device,"
            f" datastore, paths) VALUES (generateUUIDv4(), 1, '{host}', now64(6), '{kind}',"
            f" '{device}', '{datastore}', {paths})"
        )
    for number, ((host, dialect, device, path, datastore), _) in enumerate(CASES):
        server.admin.command(
            "INSERT INTO reservation_conflicts_stored (event_id, revision, started_at, ended_at,"
            " steps, host, dialect, device, path, datastore) VALUES (generateUUIDv4(), 1,"
            f" now64(6), now64(6), {number + 1}, '{host}', '{dialect}', '{device}', '{path}',"
            f" '{datastore}')"
        )
    yield server


def test_lun_path_and_datastore_are_in_their_columns_and_inventory_adds_missing_ones(
    conflicts: Server,
) -> None:
    rows = conflicts.reader.rows(
        "SELECT toString(device), toString(path), toString(datastore) FROM reservation_conflicts"
        " ORDER BY steps"
    )
    assert [tuple(row) for row in rows] == [shown for _, shown in CASES]
