"""VM logs from the datastores of a simulated vCenter to log_lines: each line once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from stunwatch.access import kafka_access
from stunwatch.ingest.vcenter.collectors import vmlogs
from stunwatch.ingest.vcenter.collectors.polls import BURST_S, DatastoreFolder, Limits, Paced
from stunwatch.ingest.vcenter.fleet import Machine, Selection
from stunwatch.ingest.vcenter.positions import Positions
from stunwatch.ingest.vcenter.session import (
    READING_METHODS,
    FileGoneError,
    FilePlace,
    Part,
    Session,
    UnreadableError,
)
from stunwatch.ingest.vcenter.vmlogs import FIRST_LINE_BYTES
from stunwatch.shipping import Shipper
from tests.kafka_and_clickhouse import Storing, storing
from tests.vcenter.simulator import Request, Simulator

pytestmark = pytest.mark.slow

STUNWATCH = Path(sys.executable).with_name("stunwatch")
QUICK = Limits(host_requests_per_second=50, datastore_requests_per_second=200, sweep_s=1)
FIRST_LINE = f"bytes=0-{FIRST_LINE_BYTES - 1}"
SWEEP_FAR_AWAY = replace(QUICK, sweep_s=3600)


@dataclass
class Hosts:
    """Writes the VMs' logs. `tag` is in every line, so that tests recognise their own."""

    vcenter: Simulator
    tag: str

    def __post_init__(self) -> None:
        self.written: dict[str, int] = dict.fromkeys(self.vcenter.folders(), 0)
        """Number of whole lines, by VM."""

    def write(self, vm: str, lines: int = 1) -> None:
        """Append lines to a VM's log. Each contains its number."""
        first = self.written[vm]
        with self.vcenter.log(vm).open("a") as log:
            for number in range(first, first + lines):
                now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
                log.write(f"{now} In(05) vcpu-0 - {self.tag} of {vm}: line {number}\n")
        self.written[vm] += lines

    def write_all(self, lines: int = 1) -> None:
        for vm in self.written:
            self.write(vm, lines)

    def rotate(self, vm: str) -> None:
        """Rename the log, as a host does before it starts a new one."""
        log = self.vcenter.log(vm)
        count = len(list(log.parent.glob("vmware-*.log")))
        log.rename(log.with_name(f"vmware-{count + 1}.log"))

    @property
    def total(self) -> int:
        return sum(self.written.values())


@contextmanager
def collecting(
    stored: Storing, vcenter: Simulator, kind: str, limits: Limits = QUICK
) -> Iterator[list[str]]:
    """Run a collector in its own thread until the end of the block; yield its messages."""
    said: list[str] = []
    stop = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        session = Session(vcenter.address, vcenter.credentials, stop=stop)
        positions = Positions(kafka_access(stored.settings, "collector"), kind)
        shipper = Shipper(kafka_access(stored.settings, "collector"), lambda: None)
        try:
            vmlogs.run(
                Selection(), limits, session, positions, shipper, stop, said.append, is_once=False
            )
        except BaseException as error:
            failed.append(error)
        finally:
            positions.close()
            session.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield said
    finally:
        stop.set()
        thread.join()
    assert not failed, failed
    # Such an error does not stop a collection, but fails the test.
    assert not [each for each in said if each.startswith("Cannot follow the log")], said


def count(tag: str, condition: str = "true") -> str:
    return f"SELECT count() FROM log_lines WHERE message LIKE '{tag} of %' AND {condition}"


def assert_all_are_there_once(stored: Storing, hosts: Hosts) -> None:
    """Check that every line was stored once, for the right VM, and no others."""
    stored.wait_for(count(hosts.tag), hosts.total)
    rows = stored.rows(
        "SELECT vm, arraySort(groupArray(toUInt32(splitByString(': line ', message)[2])))"
        f" FROM log_lines WHERE message LIKE '{hosts.tag} of %'"
        " AND position(message, concat(' of ', vm, ':')) > 0 GROUP BY vm"
    )
    assert {vm: list(numbers) for vm, numbers in rows} == {
        vm: list(range(lines)) for vm, lines in hosts.written.items() if lines
    }


def assert_nothing_was_read_twice(requests: list[Request]) -> None:
    """Check requests of one collector for logs that were not rotated meanwhile.

    A log that has moved is identified by reading its first line again.
    """
    spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for each in requests:
        if each.path.endswith(".log") and each.span is not None and each.range != FIRST_LINE:
            spans.setdefault((each.query["dsName"], each.path), []).append(each.span)
    for file, read in spans.items():
        for (_, end), (start, _) in pairwise(sorted(read)):
            assert end <= start, (file, sorted(read))


def lives(requests: list[Request], killed_at: list[float]) -> Iterator[list[Request]]:
    """Yield the requests of each collector: from a login after the previous one was killed.

    Requests answered between the two belong to the killed collector.
    """
    begins = [
        next(
            at
            for at, each in enumerate(requests)
            if each.soap == "Login" and each.at.timestamp() > death
        )
        for death in [0.0, *killed_at]
    ]
    for start, end in pairwise([*begins, len(requests)]):
        yield requests[start:end]


def assert_only_read(requests: list[Request]) -> None:
    """Check all recorded requests."""
    assert {each.soap for each in requests if each.soap} <= READING_METHODS
    assert {each.method for each in requests if not each.soap} <= {"GET"}
    assert {each.path for each in requests if each.soap} <= {"/sdk"}


def assert_the_rate_holds(
    requests: list[Request], host_of: Callable[[str], str], per_second: float
) -> None:
    """Check that no host received more requests in any time span than rate and burst allow."""
    by_host: dict[str, list[float]] = {}
    for each in requests:
        if each.path.startswith("/folder/"):
            vm = each.path.split("/")[2]
            by_host.setdefault(host_of(vm), []).append(each.at.timestamp())
    for host, times in by_host.items():
        times.sort()
        for span_s in (1.0, 3.0, 10.0):
            # Requests sent a moment earlier may be answered and recorded within the span.
            most = (span_s + BURST_S + 0.5) * per_second
            busiest = max(bisect_left(times, at + span_s) - n for n, at in enumerate(times))
            assert busiest <= most, (host, span_s, busiest)


@dataclass(frozen=True)
class Size:
    hosts: int
    vms: int
    datastores: int
    seconds: int
    """How long lines are written."""


SMALL = Size(hosts=5, vms=40, datastores=4, seconds=20)
FULL = Size(hosts=100, vms=2000, datastores=20, seconds=240)


@pytest.mark.parametrize(
    "size", [SMALL, pytest.param(FULL, marks=pytest.mark.release)], ids=["small", "full"]
)
def test_every_line_arrives_once_although_components_are_killed(size: Size, tmp_path: Path) -> None:
    with (
        storing(tmp_path / "home") as stored,
        Simulator(
            tmp_path / "vcenter", hosts=size.hosts, vms=size.vms, datastores=size.datastores
        ) as vcenter,
    ):
        hosts = Hosts(vcenter, "killed")
        words = ["--sweep", "5", "--host-rate", "20", "--datastore-rate", "100"]
        collectors = [
            partial(
                subprocess.Popen,
                [STUNWATCH, "collect", "vmlogs", *words],
                env=os.environ | stored.settings.environment() | vcenter.environment,
                stdout=subprocess.DEVNULL,
            )
        ] * 3
        killed_at: list[float] = []
        rng = random.Random(7)
        began = time.monotonic()
        collector = collectors.pop()()
        due = [0.3 * size.seconds, 0.5 * size.seconds, 0.7 * size.seconds]
        try:
            while (at := time.monotonic() - began) < size.seconds:
                for vm in rng.sample(sorted(hosts.written), size.vms // 10):
                    hosts.write(vm, rng.randint(1, 5))
                if due and at > due[0]:
                    if len(due) == 2:
                        stopped_at = time.time()
                        vcenter.stop()
                        vcenter.start()
                    else:
                        collector.kill()
                        collector.wait()
                        killed_at.append(time.time())
                        collector = collectors.pop()()
                    due.pop(0)
                time.sleep(0.2)
            assert_all_are_there_once(stored, hosts)
        finally:
            collector.terminate()
        assert collector.wait(timeout=30) == 0

        def host_of(vm: str) -> str:
            return f"esx{(int(vm[3:]) - 1) % size.hosts + 1:03d}.lab.example"

        assert dict(stored.rows("SELECT DISTINCT vm, host FROM log_lines")) == {
            vm: host_of(vm) for vm in hosts.written if hosts.written[vm]
        }
        assert stored.rows("SELECT count() FROM coverage WHERE gap_bytes > 0") == [(0,)]
        requests = vcenter.requests()
        assert_only_read(requests)
        # Its wait for updates may have been answered later.
        assert "Logout" in {each.soap for each in requests[-3:]}
        for life in lives(requests, killed_at):
            # What the simulator recorded last before it was killed may not have arrived.
            arrived = [each for each in life if not -0.1 < each.at.timestamp() - stopped_at < 0.1]
            assert_nothing_was_read_twice(arrived)
            assert_the_rate_holds(life, host_of, 20)


def test_an_expired_session_is_renewed(stored: Storing, tmp_path: Path) -> None:
    with Simulator(tmp_path) as vcenter, collecting(stored, vcenter, "expired"):
        hosts = Hosts(vcenter, "expired")
        hosts.write_all()
        assert_all_are_there_once(stored, hosts)
        vcenter.end_sessions()
        hosts.write_all()
        assert_all_are_there_once(stored, hosts)
        assert_nothing_was_read_twice(vcenter.requests())


def test_a_busy_vcenter_is_retried_without_loss(stored: Storing, tmp_path: Path) -> None:
    with Simulator(tmp_path) as vcenter, collecting(stored, vcenter, "busy"):
        hosts = Hosts(vcenter, "busy")
        hosts.write_all()
        assert_all_are_there_once(stored, hosts)
        vcenter.be_busy(20)
        hosts.write_all()
        assert_all_are_there_once(stored, hosts)
        refused = [each.at for each in vcenter.requests() if each.status == 503]
        assert len(refused) == 20
        assert (max(refused) - min(refused)).total_seconds() > 1


class BreakingSession:
    """A session that reads vmware.log, and refuses what comes after the first read."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read_file(self, place: FilePlace, offset: int, most: int) -> Part:
        self.asked.append(place.path)
        if len(self.asked) == 2:
            raise UnreadableError("away")
        if place.path.endswith("/vmware.log"):
            return Part(b"12345", offset + 5)
        raise FileGoneError("not there")


@pytest.mark.unit
def test_data_read_by_a_failed_poll_is_not_read_again() -> None:
    session = BreakingSession()
    machine = Machine("vm-1", "app", "esx", "gold", "lab", "san-01", "app", {})
    kept: dict[int, Part] = {}

    def folder() -> DatastoreFolder:
        pace = Paced(QUICK, threading.Event())
        return DatastoreFolder(cast(Session, session), machine, pace, 0.0, kept)

    first = folder()
    assert first.read("vmware.log", 7, 10) == Part(b"12345", 12)
    with pytest.raises(UnreadableError):
        first.read("vmware-1.log", 7, 10)
    second = folder()
    assert second.read("vmware.log", 7, 10) == Part(b"12345", 12)
    assert second.read("vmware-1.log", 7, 10) is None
    assert session.asked == ["app/vmware.log", "app/vmware-1.log", "app/vmware-1.log"]
    third = folder()
    third.read("vmware.log", 7, 10)
    assert session.asked[-1] == "app/vmware.log"


def test_an_unreadable_datastore_does_not_delay_others(stored: Storing, tmp_path: Path) -> None:
    with Simulator(tmp_path) as vcenter, collecting(stored, vcenter, "away") as said:
        hosts = Hosts(vcenter, "away")
        hosts.write_all()
        assert_all_are_there_once(stored, hosts)
        vcenter.take_away("san-01")
        hosts.write_all()
        on_others = sum(
            lines + (vcenter.log(vm).parent.parent.name != "san-01")
            for vm, lines in dict.fromkeys(hosts.written, 1).items()
        )
        stored.wait_for(count("away"), on_others)
        vcenter.give_back("san-01")
        assert_all_are_there_once(stored, hosts)
    assert any("[san-01]" in each and "Cannot read" in each for each in said)
    assert "lab/san-01 can be read again." in said


def test_a_change_to_a_vm_triggers_a_poll_of_its_log(stored: Storing, tmp_path: Path) -> None:
    with Simulator(tmp_path) as vcenter, collecting(stored, vcenter, "task", SWEEP_FAR_AWAY):
        hosts = Hosts(vcenter, "task")
        hosts.write_all()
        assert_all_are_there_once(stored, hosts)
        hosts.write_all()
        vcenter.snapshot("app0002")
        stored.wait_for(count("task", "vm = 'app0002'"), 2, seconds=15)
        # Updates come at the end of the task, and after it.
        hosts.write("app0002")
        stored.wait_for(count("task", "vm = 'app0002'"), 3, seconds=15)
        assert stored.rows(count("task", "vm = 'app0001'")) == [(1,)]


def test_no_line_is_lost_when_a_vm_moves_and_its_log_rotates(
    stored: Storing, tmp_path: Path
) -> None:
    with Simulator(tmp_path) as vcenter, collecting(stored, vcenter, "moved", SWEEP_FAR_AWAY):
        hosts = Hosts(vcenter, "moved")
        hosts.write("app0001", 2)
        stored.wait_for(count("moved"), 2)
        # vMotion: the old host writes a last line, the new one starts a log.
        hosts.write("app0001")
        hosts.rotate("app0001")
        vcenter.migrate("app0001", "esx002.lab.example")
        stored.wait_for(count("moved"), 3)
        hosts.write("app0001", 4)
        stored.wait_for(count("moved"), 7, seconds=20)
        # Storage vMotion: the folder with all logs moves to another datastore.
        hosts.write("app0001")
        vcenter.move("app0001", "san-02")
        hosts.write("app0001")
        assert_all_are_there_once(stored, hosts)
        assert stored.rows(
            "SELECT host, datastore, groupArray(toUInt32(splitByChar(' ', message)[-1]))"
            " FROM (SELECT * FROM log_lines WHERE message LIKE 'moved of %' ORDER BY event_time)"
            " GROUP BY ALL ORDER BY min(event_time)"
        ) == [
            ("esx001.lab.example", "san-01", [0, 1, 2]),
            ("esx002.lab.example", "san-01", [3, 4, 5, 6]),
            ("esx002.lab.example", "san-02", [7, 8]),
        ]


def test_a_vm_that_moved_while_no_collector_ran_is_found_again(
    stored: Storing, tmp_path: Path
) -> None:
    tag = tmp_path.name
    with Simulator(tmp_path) as vcenter:
        hosts = Hosts(vcenter, tag)
        hosts.write("app0001", 3)
        with collecting(stored, vcenter, tag):
            stored.wait_for(count(tag), 3)
        hosts.write("app0001")
        vcenter.move("app0001", "san-02")
        hosts.rotate("app0001")
        hosts.write("app0001", 2)
        with collecting(stored, vcenter, tag):
            assert_all_are_there_once(stored, hosts)
            assert_nothing_was_read_twice(vcenter.requests())


def test_collectors_divide_the_datastores(stored: Storing, tmp_path: Path) -> None:
    with Simulator(tmp_path, datastores=8, vms=16) as vcenter:
        hosts = Hosts(vcenter, "shared")
        with collecting(stored, vcenter, "shared"):
            with collecting(stored, vcenter, "shared"):
                stored.wait_for_members("collect-shared", 2)
                hosts.write_all()
                assert_all_are_there_once(stored, hosts)
                before = len(vcenter.requests())
                hosts.write_all()
                assert_all_are_there_once(stored, hosts)
                assert_nothing_was_read_twice(vcenter.requests()[before:])
            # One has left, and the other continues alone.
            hosts.write_all()
            assert_all_are_there_once(stored, hosts)


def test_a_log_is_handed_over_to_the_collector_of_its_new_datastore(
    stored: Storing, tmp_path: Path
) -> None:
    with (
        Simulator(tmp_path, datastores=8, vms=16) as vcenter,
        collecting(stored, vcenter, "handed_over"),
        collecting(stored, vcenter, "handed_over"),
    ):
        hosts = Hosts(vcenter, "handed_over")
        stored.wait_for_members("collect-handed_over", 2)
        hosts.write_all(3)
        assert_all_are_there_once(stored, hosts)
        before = len(vcenter.requests())
        for vm in hosts.written:
            number = int(vcenter.log(vm).parent.parent.name[-2:])
            hosts.write(vm)
            vcenter.move(vm, f"san-{number % 8 + 1:02d}")
            hosts.write(vm)
        assert_all_are_there_once(stored, hosts)
        assert stored.rows("SELECT count() FROM coverage WHERE gap_bytes > 0") == [(0,)]
        assert_nothing_was_read_twice(vcenter.requests()[before:])
