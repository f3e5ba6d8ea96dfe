"""From a vCenter to the views: samples, inventory and tasks, each once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ingest.vcenter.positions import Positions
from ingest.vcenter.session import READING_METHODS, Session
from stunwatch.access import kafka_access
from stunwatch.collecting import inventory, latency
from stunwatch.shipping import Shipper
from tests.vcenter.simulator import Simulator
from tests.vcenter.storing import Storing, storing

STUNWATCH = Path(sys.executable).with_name("stunwatch")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storing]:
    with storing(tmp_path_factory.mktemp("storing")) as made:
        yield made


@pytest.fixture(scope="module")
def vcenter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with Simulator(tmp_path_factory.mktemp("vcenter"), hosts=3, vms=4, datastores=2) as made:
        yield made


def collect(stored: Storing, vcenter: Simulator, kind: str, run: Any) -> list[str]:
    """A collector that is started, does everything there is to do, and ends; what it said."""
    said: list[str] = []
    session = Session(vcenter.address, vcenter.credentials)
    positions = Positions(kafka_access(stored.settings, "collector"), kind)
    shipper = Shipper(kafka_access(stored.settings, "collector"), lambda: None)
    run(session, positions, shipper, threading.Event(), said.append, is_once=True)
    positions.close()
    session.close()
    return said


def test_samples_are_stored_once_and_join_with_the_inventory(
    stored: Storing, vcenter: Simulator
) -> None:
    collect(stored, vcenter, "inventory", inventory.run)
    first = collect(stored, vcenter, "latency", latency.run)
    second = collect(stored, vcenter, "latency", latency.run)
    shipped = sum(int(each.split()[0].replace(",", "")) for each in first + second)
    stored.wait_for("SELECT count() FROM latency_samples", shipped)
    # An hour of six LUNs and four disks; the second began where the first had ended.
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


def test_the_inventory_is_what_esxcli_would_say(stored: Storing, vcenter: Simulator) -> None:
    collect(stored, vcenter, "inventory", inventory.run)
    # What was said is remembered through the restart.
    again = collect(stored, vcenter, "inventory", inventory.run)
    assert again == ["0 items of inventory, 0 tasks"]
    stored.wait_for("SELECT uniqExact(host) FROM inventory", 3)
    assert stored.rows(
        "SELECT datastore, vendor, path_policy, array_type, vaai, transport, length(paths), is_rdm"
        " FROM inventory WHERE host = 'esx001.lab.example' ORDER BY datastore"
    ) == [
        (f"san-0{each}", "EQLOGIC", "VMW_PSP_RR", "VMW_SATP_EQL", "supported", "iscsi", 2, False)
        for each in (1, 2)
    ]
    assert stored.rows(
        "SELECT vm, uniqExact(device) FROM vm_storage WHERE vm = 'app0001' GROUP BY vm"
    ) == [("app0001", 1)]


@pytest.mark.slow
def test_two_share_the_work_and_one_takes_over_while_the_vcenter_restarts(
    stored: Storing, tmp_path: Path
) -> None:
    with Simulator(tmp_path, hosts=3, vms=20, datastores=2, session_timeout="2s") as vcenter:
        environment = os.environ | stored.settings.environment() | vcenter.environment
        command = [STUNWATCH, "collect", "latency"]
        before = stored.rows("SELECT count() FROM latency_samples_stored")[0][0]
        subprocess.run([*command, "--once"], env=environment, check=True)
        first = subprocess.Popen(command, env=environment)
        time.sleep(10)
        second = subprocess.Popen(command, env=environment)
        time.sleep(15)
        vcenter.stop()
        first.kill()
        time.sleep(5)
        vcenter.start()
        time.sleep(75)
        second.terminate()
        assert second.wait(30) == 0
        first.wait()
        subprocess.run([*command, "--once"], env=environment, check=True)
        time.sleep(3)
        assert vcenter.called() <= READING_METHODS
    # Not one sample came twice, though a kill may let some.
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
