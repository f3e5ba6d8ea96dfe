"""Ten minutes of kills, stalls and orderly stops of every component while hosts send logs.

A real Fluent Bit and `stunwatch receive` accept 500 lines per second: VM logs, and syslog over TCP
and over TLS. Set STUNWATCH_FAULT_MINUTES for a shorter or a longer run.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stunwatch.local.trial import free_ports
from tests.end_to_end.made import stamp
from tests.pipeline import STUNWATCH, Pipeline

pytestmark = [
    pytest.mark.release,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        shutil.which("fluent-bit") is None or shutil.which("openssl") is None,
        reason="There is no fluent-bit, or no openssl, on the PATH.",
    ),
]

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60 * float(os.environ.get("STUNWATCH_FAULT_MINUTES", "10"))
PAUSE_S = 20.0
"""Seconds from one fault to the next."""
STALL_S = 8.0
VMS = 7
VM_LINES_A_SECOND, HOST_LINES_A_SECOND = 200, 150
SHORTEST_STUN_US = 10_000_000
IN_FLIGHT_S = 3.0
"""A lost line was sent within this time before Fluent Bit or the receiver ended, or while it was
down."""

COMPONENTS = ("kafka", "taskmanager", "clickhouse", "jobmanager")
OWN: dict[str, tuple[list[str | Path], list[str]]] = {
    "fluent-bit": (["fluent-bit", "-c", "ingest/fluent-bit.yaml"], ["LINES_PORT"]),
    "receiver": ([STUNWATCH, "receive", "--tls"], ["TCP_PORT", "TLS_PORT"]),
}
"""The processes next to the pipeline: command and listening ports."""


# -- Senders


@dataclass
class Sender:
    """Sends numbered lines at a rate, from the start until it is stopped."""

    rate: int
    sent: list[float] = field(default_factory=list)
    """The time at which each line was sent, by its number."""
    stopped: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def stop(self) -> None:
        assert self.thread is not None
        self.stopped.set()
        self.thread.join()

    def send(self, number: int, now: datetime) -> bool:
        """Return True if the line was sent; False if the sender was stopped meanwhile."""
        raise NotImplementedError

    def _run(self) -> None:
        began = time.monotonic()
        for number in itertools.count():
            due_s = began + number / self.rate - time.monotonic()
            if self.stopped.wait(max(0.0, due_s)) or not self.send(number, datetime.now(UTC)):
                return
            self.sent.append(time.monotonic())


@dataclass
class Datastore(Sender):
    """VMs whose logs grow on a datastore. Every hundredth line ends a stun.

    Each stun has a unique duration.
    """

    folder: Path = Path()

    def send(self, number: int, now: datetime) -> bool:
        log = self.folder / f"vm{number % VMS}/vmware.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        said = f"Checkpoint_Unstun: vm stopped for {SHORTEST_STUN_US + number} us"
        if number % 100:
            said = f"Vix: [{number}] nothing happened"
        with log.open("a") as file:
            file.write(f"{stamp(now)[:-4]}Z In(05) vcpu-0 - {said}\n")
        return True


@dataclass
class Host(Sender):
    """A host that sends syslog, one line per message.

    Every 500th line starts a countdown of five.
    """

    name: str = ""
    port: int = 0
    authority: Path | None = None
    connection: socket.socket | None = None

    def connect(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        if self.authority is None:
            return plain
        context = ssl.create_default_context(cafile=str(self.authority))
        return context.wrap_socket(plain, server_hostname="collector")

    def send(self, number: int, now: datetime) -> bool:
        said = f"cpu1:2098)Vol3: {number}: nothing happened"
        step = number % 500
        if step < 5:
            world = 100_000 + number // 500
            left = 64 - 16 * step
            said = f"cpu1:{world})ScsiCore: {number}: Sync CR (opcode 28) at {left} (wid {world})"
        line = f"<14>{stamp(now)[:-4]}Z {self.name} vmkernel: {said}\n".encode()
        while not self.stopped.is_set():
            try:
                self.connection = self.connection or self.connect()
                self.connection.sendall(line)
                return True
            except OSError:
                # Like a host, send the line that failed over a new connection.
                if self.connection is not None:
                    self.connection.close()
                self.connection = None
                time.sleep(0.2)
        return False


# -- Collectors


@dataclass
class Collector:
    """Fluent Bit with the project's configuration, and the receiver next to it."""

    pipeline: Pipeline
    home: Path
    ports: dict[str, int]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    away: list[tuple[float, float]] = field(default_factory=list)
    """Downtimes: from each end of a process to its next start, in seconds of the monotonic
    clock."""

    def start(self, name: str) -> None:
        """Start one process of OWN, and wait until it listens."""
        words, ports = OWN[name]
        with (self.home / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                words,
                cwd=ROOT,
                env=os.environ
                | {f"STUNWATCH_SYSLOG_{each}": str(port) for each, port in self.ports.items()}
                | self.pipeline.for_fluent_bit
                | {
                    "STUNWATCH_HOME": str(self.home),
                    "STUNWATCH_VMWARE_LOG_PATH": str(self.home / "vmfs/volumes/*/*/vmware*.log"),
                    "STUNWATCH_ESXTOP_PATH": str(self.home / "esxtop/*/*.csv"),
                    "STUNWATCH_TLS_CERTIFICATE": str(self.home / "collector.crt"),
                    "STUNWATCH_TLS_KEY": str(self.home / "collector.key"),
                },
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 60
        for port in ports:
            while True:
                with closing(socket.socket()) as each:
                    if not each.connect_ex(("127.0.0.1", self.ports[port])):
                        break
                assert time.monotonic() < deadline, (self.home / f"{name}.log").read_text()
                time.sleep(0.1)

    def end(self, name: str, how: signal.Signals) -> None:
        """End one process of OWN and start it again."""
        began = time.monotonic()
        self.running[name].send_signal(how)
        self.running[name].wait(timeout=300)
        self.start(name)
        self.away.append((began, time.monotonic()))

    def explains(self, moment: float) -> bool:
        """True if a line sent at that time may have been in flight when a process ended."""
        return any(began - IN_FLIGHT_S <= moment <= back for began, back in self.away)

    def stop(self) -> None:
        for each in self.running.values():
            each.kill()
            each.wait()


@pytest.fixture
def collector(pipelines: Callable[..., Pipeline], tmp_path: Path) -> Iterator[Collector]:
    pipeline = pipelines()
    pipeline.run("up")
    home = tmp_path / "collector"
    home.mkdir()
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-subj", "/CN=collector", "-addext", "subjectAltName=DNS:collector"),
            *("-keyout", home / "collector.key", "-out", home / "collector.crt"),
        ],
        check=True,
        capture_output=True,
    )
    names = (
        *("UDP_PORT", "TCP_PORT", "COUNTED_PORT", "TLS_PORT", "TLS_COUNTED_PORT", "LINES_PORT"),
    )
    made = Collector(pipeline, home, dict(zip(names, free_ports(len(names)), strict=True)))
    try:
        for name in OWN:
            made.start(name)
        yield made
    finally:
        made.stop()


# -- Faults


def signal_all(pipeline: Pipeline, component: str, how: signal.Signals) -> None:
    for each in pipeline.processes(component):
        with suppress(ProcessLookupError):
            os.kill(each.pid, how)


def kill(collector: Collector, component: str) -> None:
    if component in OWN:
        collector.end(component, signal.SIGKILL)
    else:
        signal_all(collector.pipeline, component, signal.SIGKILL)


def stop(collector: Collector, component: str) -> None:
    if component in OWN:
        collector.end(component, signal.SIGTERM)
    else:
        signal_all(collector.pipeline, component, signal.SIGTERM)


def stall(collector: Collector, component: str) -> None:
    if component in OWN:
        pids = [collector.running[component].pid]
    else:
        pids = [each.pid for each in collector.pipeline.processes(component)]
    for how in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, how)
        if how == signal.SIGSTOP:
            time.sleep(STALL_S)


FAULTS = [(what, component) for what in (kill, stall, stop) for component in (*COMPONENTS, *OWN)]


# -- Expected results


def numbers(pipeline: Pipeline, where: str, pattern: str) -> list[int]:
    return [
        number
        for (number,) in pipeline.rows(
            f"SELECT toUInt32OrZero(extract(message, '{pattern}')) FROM log_lines"
            f" WHERE {where} ORDER BY 1"
        )
    ]


def lines_of_vms(pipeline: Pipeline, where: str) -> list[int]:
    """Return the sorted numbers of the stored lines."""
    found = numbers(pipeline, where, r"(?:\\[|stopped for )(\\d+)")
    return sorted(number % SHORTEST_STUN_US for number in found)


def lines_of_host(pipeline: Pipeline, host: Host) -> list[int]:
    """Return the sorted numbers of the stored lines."""
    return numbers(pipeline, f"host = '{host.name}'", r"(?:Vol3|ScsiCore): (\\d+)")


def wait_for_all(collector: Collector, sender: Sender, stored: Callable[[], list[int]]) -> None:
    """Wait for every line, except those that may have been in flight when a collector ended."""
    deadline = time.monotonic() + 300
    while unexplained := [
        number
        for number in sorted({*range(len(sender.sent))} - {*stored()})
        if not collector.explains(sender.sent[number])
    ]:
        assert time.monotonic() < deadline, f"{len(unexplained)} are missing: {unexplained[:10]}"
        time.sleep(1)


def test_faults_under_load_lose_and_duplicate_nothing(collector: Collector) -> None:
    pipeline = collector.pipeline
    datastore = Datastore(VM_LINES_A_SECOND, folder=collector.home / "vmfs/volumes/ds-faults")
    hosts = [
        Host(HOST_LINES_A_SECOND, name="esx-tcp", port=collector.ports["TCP_PORT"]),
        Host(
            HOST_LINES_A_SECOND,
            name="esx-tls",
            port=collector.ports["TLS_PORT"],
            authority=collector.home / "collector.crt",
        ),
    ]
    senders = [datastore, *hosts]
    for each in senders:
        each.start()
    began = time.monotonic()
    done = []
    try:
        for what, component in itertools.cycle(FAULTS):
            time.sleep(PAUSE_S)
            if time.monotonic() - began > SECONDS:
                break
            what(collector, component)
            done.append(f"{what.__name__} {component}")
    finally:
        for each in senders:
            each.stop()
    # Fluent Bit delivers what it has read late: it reads files every second, and after an outage of
    # Kafka it sends some chunks again. `status` cannot know that.
    of_vms = "source = 'vmware_log' AND datastore = 'ds-faults'"
    wait_for_all(collector, datastore, lambda: lines_of_vms(pipeline, of_vms))
    for host in hosts:
        wait_for_all(collector, host, lambda host=host: lines_of_host(pipeline, host))
    deadline = time.monotonic() + 300
    while (status := pipeline.status()).returncode:
        assert time.monotonic() < deadline, status.stdout + status.stderr
        time.sleep(1)

    # A kill of Fluent Bit loses what its producer had not sent; `audit` ships it again. Then no
    # line of the files is lost or duplicated, and no stun is missing.
    written = [*range(len(datastore.sent))]
    missing = {*written} - {*lines_of_vms(pipeline, of_vms)}
    if missing:
        pipeline.run("audit", "--repair")
    assert lines_of_vms(pipeline, of_vms) == written
    print(f"{len(missing)} lines of files were lost and shipped again")
    pipeline.wait_for(
        "SELECT arraySort(groupArray(duration_us)) FROM stuns WHERE datastore = 'ds-faults'",
        [SHORTEST_STUN_US + number for number in written[::100]],
        120,
    )

    # Of the hosts' lines, only those in flight when a collector ended are missing.
    lost: list[int] = []
    for host in hosts:
        found = lines_of_host(pipeline, host)
        assert len(found) == len({*found}), "lines are doubled"
        missing = {*range(len(host.sent))} - {*found}
        lost += missing
        whole = [
            first
            for first in range(0, len(host.sent) - 5, 500)
            if missing.isdisjoint(range(first, first + 5))
        ]
        pipeline.wait_for(
            "SELECT arraySort(groupArray(world_id)) FROM reservation_conflicts"
            f" WHERE host = '{host.name}' AND steps = 5",
            [100_000 + first // 500 for first in whole],
            120,
        )
    deadline = time.monotonic() + 60
    while differences := pipeline.differences():
        assert time.monotonic() < deadline, differences
        time.sleep(1)
    lines = sum(len(each.sent) for each in senders)
    print(f"{lines} lines, {len(done)} faults, {len(lost)} lines in flight were lost: {done}")
