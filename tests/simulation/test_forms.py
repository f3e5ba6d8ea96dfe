"""Forms of simulated lines: relays, operation IDs, and failures on two lines."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from stunwatch.ingest.records import LineRecords, Origin
from stunwatch.simulation import operations
from stunwatch.simulation.fleet import RELAYS, Fleet, Host, make_fleet
from stunwatch.simulation.hosts import Room
from stunwatch.simulation.log_writers import LogWriters
from stunwatch.simulation.relays import behind_relay
from stunwatch.simulation.truth import Truth

Row = dict[str, Any]
START_US = 1_636_000_000_123_000
MESSAGES = {
    "vmkernel": ("NFS: 337: Lost connection to the server nas01", "cpu1:33012"),
    "hostd": ("Event 9 : User root logged in", "Vimsvc.ha-eventmgr"),
    "vobd": ("[vob.scsi.scsipath.pathstate.on] scsiPath vmhba2:C0:T0:L1 changed state", "scsi"),
    "syslog": (" <gold> 1 avglatency= 3.00 iops= 9", "storageRM"),
}


def fleet_of(seed: int = 7) -> Fleet:
    return make_fleet(
        seed=seed, name="x", hosts=24, vms=48, started_us=START_US // 1_000_000 * 1_000_000,
        minutes=60,
    )  # fmt: skip


def host_of(era: str, relay: str = "", **more: Any) -> tuple[Fleet, Host]:
    """Return a host whose lines are collected behind this relay."""
    fleet = fleet_of()
    host = next(each for each in fleet.hosts if each.era.name == era)
    host.by_syslog, host.relay = True, relay
    for name, value in more.items():
        setattr(host, name, value)
    return fleet, host


def record_of(line: str) -> Row:
    """Return the record as `replay` makes it, which extracts lines from JSON first."""
    if line.startswith("{"):
        [line] = [value for name, value in orjson.loads(line).items() if name != "@timestamp"]
    origin = Origin(run_id="test", file="messages.log", generation="0")
    maker = LineRecords(origin, written_at=datetime(2021, 11, 5, tzinfo=UTC))
    return maker.make(line.encode(), "2021-11-05T00:00:00.000Z", 0, len(line) + 1)


@pytest.mark.parametrize("program", MESSAGES)
@pytest.mark.parametrize("era", ["esxi55", "esxi60", "esxi70", "esxi80"])
@pytest.mark.parametrize("relay", RELAYS)
def test_a_line_behind_a_relay_gives_the_hosts_record(relay: str, era: str, program: str) -> None:
    fleet, host = host_of(era, relay)
    log_writer = LogWriters(fleet).of(host, program)
    message, thread = MESSAGES[program]
    log_writer.write(START_US, message, thread)
    [entry] = log_writer.entries
    line = behind_relay(host, log_writer)(entry)
    record = record_of(line)
    assert "reason" not in record, line
    assert record["host"].partition(".")[0] == host.label
    assert record["program"] == ("storagerm" if program == "syslog" else program)
    assert record["message"].endswith(message.strip())
    fraction = "" if relay == "rsyslog" else ".123"
    assert record["event_time"] == f"2021-11-04T04:26:40{fraction}Z"


@pytest.mark.parametrize("relay", RELAYS)
def test_a_vms_line_behind_a_relay_has_its_vm_and_operation(relay: str) -> None:
    fleet, host = host_of("esxi80", relay)
    vm = host.vms[0]
    vm.name, vm.is_by_syslog = "web01", True
    log_writer = LogWriters(fleet).of_vm(vm)
    log_writer.write(
        START_US, "Checkpoint_Unstun: vm stopped for 5 us", "vcpu-0", op_id="esxui-0a1b-2c3d"
    )
    record = record_of(behind_relay(host, log_writer)(log_writer.entries[0]))
    assert record["source"] == "vmware_log"
    assert (record["vm"], record["op_id"]) == ("web01", "esxui-0a1b-2c3d")
    assert record["message"] == "Checkpoint_Unstun: vm stopped for 5 us"
    assert record["host"].partition(".")[0] == host.label


def test_the_hosts_of_a_fleet_have_every_relay_in_turn() -> None:
    collected = [each.relay for each in fleet_of().hosts if each.by_syslog]
    assert len(set(collected)) == min(len(RELAYS), len(collected)) >= 4
    assert not any(each.relay for each in fleet_of().hosts if not each.by_syslog)


def op_ids() -> Iterator[str]:
    rng = random.Random("operation IDs")
    return (operations.draw(rng).op_id for _ in range(400))


@pytest.mark.parametrize(
    "form",
    [
        r"vim-cmd-[0-9a-f]{2}-[0-9a-f]{4}",
        r"[a-z0-9]{8}-\d+-auto-[a-z0-9]{3}-h5:\d{8}-[0-9a-f]{2}-[0-9a-f]{2}-[0-9a-f]{4}",
        r"esxui-[0-9a-f]{4}-[0-9a-f]{4}",
        r"HB-host-\d+@\d+-[0-9a-f]{8}-[0-9a-f]{2}-[0-9a-f]{4}",
        r"[0-9a-f]{8}",
        "",
    ],
)
def test_every_published_form_of_an_operation_id_is_generated(form: str) -> None:
    assert any(re.fullmatch(form, each) for each in op_ids())


@pytest.mark.parametrize(
    ("era", "column", "without"), [("esxi80", " {} ", " - "), ("esxi70", "| opID={}|", "| |")]
)
def test_an_operation_id_is_in_its_column(era: str, column: str, without: str) -> None:
    fleet, host = host_of(era, has_named_column=era == "esxi70")
    vm = host.vms[0]
    vm.is_by_syslog = False
    log_writer = LogWriters(fleet).of_vm(vm)
    for op_id in op_ids():
        log_writer.write(START_US, "a message", "vcpu-0", op_id=op_id)
    origin = Origin(run_id="test", source="vmware_log", vm=vm.name, file="vmware.log")
    maker = LineRecords(origin, written_at=datetime(2021, 11, 5, tzinfo=UTC))
    for entry in log_writer.entries:
        line = log_writer.spell(entry)
        record = maker.make(line.encode(), "", 0, 1)
        assert (column.format(entry.op_id) if entry.op_id else without) in line
        assert (record.get("op_id", ""), record["message"]) == (entry.op_id, "a message")


@pytest.mark.parametrize("form", ["one_line", "two_lines", "two_lines_of_hpp"])
def test_a_failure_is_one_line_or_two_lines_of_one_thread(form: str) -> None:
    fleet, host = host_of("esxi80", failed_form=form)
    log_writers = LogWriters(fleet)
    room = Room(fleet, log_writers, Truth(1, "x", "", ""), host, ())
    room.failed(START_US, "naa.1", "vmhba2:C0:T0:L1", "0x28", "H:0x0 D:0x18 P:0x0")
    told = [
        each for each in log_writers.of(host, "vmkernel").entries if "ThrottleLog" in each.message
    ]
    assert len(told) == (1 if form == "one_line" else 2)
    assert len({each.thread for each in told}) == 1
    assert "H:0x0 D:0x18 P:0x0" in told[-1].message
    assert told[0].message.endswith("Failed:") == (form != "one_line")
    assert ('on path "' in told[0].message) == (form != "two_lines_of_hpp")
