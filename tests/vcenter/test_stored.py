"""From a vCenter to the views: samples, inventory and tasks are stored once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stunwatch.access import kafka_access
from stunwatch.ingest.vcenter.collectors import inventory, latency
from stunwatch.ingest.vcenter.positions import Positions
from stunwatch.ingest.vcenter.session import READING_METHODS, Session
from stunwatch.shipping import Shipper
from tests.kafka_and_clickhouse import Storing
from tests.vcenter.simulator import Simulator

STUNWATCH = Path(sys.executable).with_name("stunwatch")


@pytest.fixture(scope="module")
def vcenter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    # The tests of VM logs move VMs named app0001 and so on, and use the same tables.
    folder = tmp_path_factory.mktemp("vcenter")
    with Simulator(folder, hosts=3, vms=4, datastores=2, prefix="inv") as made:
        yield made


def collect(stored: Storing, vcenter: Simulator, kind: str, run: Any) -> list[str]:
    """Run a collector until it has read everything; return its messages."""
    said: list[str] = []
    session = Session(vcenter.address, vcenter.credentials)
    positions = Positions(kafka_access(stored.settings, "collector"), kind)
    shipper = Shipper(kafka_access(stored.settings, "collector"), lambda: None)
    run(session, positions, shipper, threading.Event(), said.append, is_once=True)
    positions.close()
    session.close()
    return said


def test_samples_are_stored_once_and_can_be_joined_with_the_inventory(
    stored: Storing, vcenter: Simulator
) -> None:
    collect(stored, vcenter, "inventory", inventory.run)
    first = collect(stored, vcenter, "latency", latency.run)
    second = collect(stored, vcenter, "latency", latency.run)
    shipped = sum(int(each.split()[0].replace(",", "")) for each in first + second)
    stored.wait_for("SELECT count() FROM latency_samples", shipped)
    # An hour of six LUNs and four disks. The second run started where the first had ended.
    assert shipped >= 178 * 10
    assert sum(int(each.split()[0]) for each in second) <= 3 * 10
    assert stored.rows(
        "SELECT origin, object_class, uniqExact(host), uniqExact(device) FROM latency_samples"
        " GROUP BY ALL ORDER BY ALL"
    ) == [("vcenter", "scsi_device", 3, 2), ("vcenter", "virtual_disk", 3, 4)]
    joined = (
        "SELECT uniqExact(samples.host, samples.device) FROM latency_samples AS samples"
        " INNER JOIN inventory ON samples.host = inventory.host"
        " AND samples.device = inventory.device WHERE inventory.datastore != ''"
    )
    assert stored.rows(joined) == [(6,)]
    assert vcenter.called() <= READING_METHODS


def test_the_inventory_equals_that_of_esxcli(stored: Storing, vcenter: Simulator) -> None:
    collect(stored, vcenter, "inventory", inventory.run)
    # The state is kept across a restart.
    again = collect(stored, vcenter, "inventory", inventory.run)
    assert again == ["0 items of inventory, 0 tasks"]
    stored.wait_for_nothing_behind("events.inventory", "clickhouse-events")
    assert stored.rows("SELECT uniqExact(host) FROM inventory") == [(3,)]
    assert stored.rows(
        "SELECT datastore, vendor, path_policy, array_type, vaai, transport, length(paths), is_rdm"
        " FROM inventory WHERE host = 'esx001.lab.example' ORDER BY datastore"
    ) == [
        (f"san-0{each}", "EQLOGIC", "VMW_PSP_RR", "VMW_SATP_EQL", "supported", "iscsi", 2, False)
        for each in (1, 2)
    ]
    assert stored.rows(
        "SELECT vm, uniqExact(device) FROM vm_storage WHERE vm = 'inv0001' GROUP BY vm"
    ) == [("inv0001", 1)]


@pytest.mark.slow
def test_one_of_two_collectors_takes_over_while_the_vcenter_restarts(
    stored: Storing, tmp_path: Path
) -> None:
    with Simulator(tmp_path, hosts=3, vms=20, datastores=2, session_timeout="2s") as vcenter:
        environment = os.environ | stored.settings.environment() | vcenter.environment
        command = [STUNWATCH, "collect", "latency"]
        before = stored.rows("SELECT count() FROM latency_samples_stored")[0][0]
        subprocess.run([*command, "--once"], env=environment, check=True)
        first = subprocess.Popen(command, env=environment)
        stored.wait_for_members("collect-latency", 1)
        second = subprocess.Popen(command, env=environment)
        stored.wait_for_members("collect-latency", 2)
        vcenter.stop()
        first.kill()
        stored.wait_for_members("collect-latency", 1)
        vcenter.start()
        # The remaining collector reads two more samples, 20 s apart, of both collectors' VMs.
        later = f"{datetime.now(UTC) + timedelta(seconds=25):%Y-%m-%d %H:%M:%S}"
        stored.wait_for(
            "SELECT uniqExact(device) FROM latency_samples WHERE device LIKE 'app%'"
            f" AND sampled_at >= '{later}'",
            20,
            seconds=150,
        )
        second.terminate()
        assert second.wait(30) == 0
        first.wait()
        subprocess.run([*command, "--once"], env=environment, check=True)
        assert vcenter.called() <= READING_METHODS
    stored.wait_for_nothing_behind("esxi.esxtop", "clickhouse-samples")
    # There are no duplicate samples, although a kill may cause some.
    shipped, different = stored.rows(
        "SELECT count(), uniqExact(host, device, sampled_at) FROM latency_samples_stored"
    )[0]
    assert shipped > before
    assert shipped - different <= 100
    for (times,) in stored.rows(
        "SELECT arraySort(groupArray(toUnixTimestamp(sampled_at))) FROM latency_samples"
        " WHERE device LIKE 'app%' GROUP BY device"
    ):
        assert {later - earlier for earlier, later in pairwise(times)} == {20}
