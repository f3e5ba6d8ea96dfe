"""Sends the demo's lines to Kafka, with Fluent Bit or with Python.

Both create the same records as live lines. The demo starts its own Fluent Bit with
ingest/fluent-bit.yaml, but with other ports, folder and log, so that the user's can run beside it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import orjson

from stunwatch import ingest
from stunwatch.access import authority, is_secured, kafka_access, password
from stunwatch.demo.scenario import Scenario, ScenarioLine
from stunwatch.errors import UserError
from stunwatch.ingest.records import (
    LineRecords,
    Origin,
    Record,
    WireRecords,
    generation_of,
    kafka_key,
)
from stunwatch.ingest.times import utc_text
from stunwatch.settings import LOOPBACK, Settings
from stunwatch.shipping import Shipper

PRINCIPAL = "fluent-bit"
"""The Kafka user of both shippers."""

PROGRAM = "fluent-bit"
CONFIGURATION = Path(ingest.__file__).with_name("fluent-bit.yaml")

READY_SECONDS = 20.0
"""Fluent Bit usually listens after one or two seconds; on a busy machine it takes longer."""

STOP_SECONDS = 15.0


class LineShipper(Protocol):
    """Sends one line of the scenario at a time."""

    name: str
    """The shipper's name to show to the user."""

    log: Path | None
    """The file to which it writes errors, if any."""

    def send(self, line: ScenarioLine, text: str) -> None:
        """Send a line with its current time. Raises UserError if it cannot be sent."""
        ...


@contextmanager
def shipper(settings: Settings, scenario: Scenario) -> Iterator[LineShipper]:
    """Use Fluent Bit if it is on the PATH and starts, else Python. Stops it at the end."""
    program = shutil.which(PROGRAM)
    if program is None:
        yield PythonShipper(settings, scenario, f"the Python shipper (no {PROGRAM} on the PATH)")
        return
    with tempfile.TemporaryDirectory(prefix="demo-", dir=settings.run) as folder:
        try:
            fluent_bit = FluentBit(settings, scenario, program, Path(folder))
        except UserError as error:
            yield PythonShipper(settings, scenario, f"the Python shipper ({error})")
            return
        try:
            yield fluent_bit
        finally:
            fluent_bit.stop()


class FluentBit:
    """Fluent Bit with its own ports and folder: reads syslog over UDP and vmware.log from files.

    Raises:
        UserError: it does not start.
    """

    def __init__(self, settings: Settings, scenario: Scenario, program: str, folder: Path) -> None:
        self._volume = folder / "vmfs" / "volumes" / scenario.datastore
        for vm in scenario.vms:
            # Files that exist at the start are read at once; new ones are found after up to 10 s.
            self._log_of(vm).parent.mkdir(parents=True)
            self._log_of(vm).touch()
        udp_port, lines_port = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_STREAM)
        self._address = (LOOPBACK, udp_port)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        log = settings.logs / "demo-fluent-bit.log"
        self.log: Path | None = log
        variables = environment(os.environ, settings, folder, udp_port, lines_port)
        try:
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    [program, "-c", str(CONFIGURATION)],
                    cwd=folder,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    # The demo handles Ctrl-C.
                    start_new_session=True,
                )
        except OSError as error:
            self._socket.close()
            raise UserError(f"{program} cannot be started: {error.strerror}") from error
        try:
            self._wait_until_it_listens(lines_port)
        except BaseException:
            self.stop()
            raise
        self.name = f"Fluent Bit ({program})"

    def _log_of(self, vm: str) -> Path:
        return self._volume / vm / "vmware.log"

    def _wait_until_it_listens(self, port: int) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if (code := self._process.poll()) is not None:
                raise UserError(f"{PROGRAM} ended with exit code {code}; its log: {self.log}")
            with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
                return
            time.sleep(0.1)
        raise UserError(f"{PROGRAM} was not ready in {READY_SECONDS:.0f} s; its log: {self.log}")

    def send(self, line: ScenarioLine, text: str) -> None:
        """Send the line by syslog, or append it to the VM's log."""
        if (code := self._process.poll()) is not None:
            raise UserError(
                f"{PROGRAM} ended with exit code {code} while the demo ran; its log: {self.log}"
            )
        if line.vm:
            with self._log_of(line.vm).open("a") as log:
                log.write(f"{text}\n")
        else:
            self._socket.sendto(text.encode(), self._address)

    def stop(self) -> None:
        """Stop it after it has sent what it has read."""
        self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def environment(
    outer: Mapping[str, str], settings: Settings, folder: Path, udp_port: int, lines_port: int
) -> dict[str, str]:
    """Return the variables of ingest/fluent-bit.yaml for the demo's own instance.

    Settings of another Fluent Bit are left out: its ports, its folder and its logs.
    """
    found = {name: value for name, value in outer.items() if not name.startswith("STUNWATCH_")}
    found |= {
        "STUNWATCH_HOME": str(folder),
        "STUNWATCH_VMWARE_LOG_PATH": str(folder / "vmfs/volumes/*/*/vmware*.log"),
        "STUNWATCH_ESXTOP_PATH": str(folder / "esxtop/*/*.csv"),
        "STUNWATCH_LISTEN": LOOPBACK,
        "STUNWATCH_SYSLOG_UDP_PORT": str(udp_port),
        "STUNWATCH_SYSLOG_LINES_PORT": str(lines_port),
        "STUNWATCH_FLUENT_BIT_GRACE": "5",
        "STUNWATCH_KAFKA_HOST": settings.kafka_host,
        "STUNWATCH_KAFKA_PORT": str(settings.kafka_port),
    }
    if is_secured(settings):
        found |= {
            "STUNWATCH_KAFKA_SECURITY_PROTOCOL": "sasl_ssl",
            "STUNWATCH_KAFKA_CA_FILE": str(authority(settings)),
            "STUNWATCH_KAFKA_FLUENT_BIT_PASSWORD": password(settings, PRINCIPAL),
        }
    return found


def free_port(kind: socket.SocketKind) -> int:
    """Return a port on loopback that is not in use."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


class PythonShipper:
    """Creates the same records as Fluent Bit, and sends each at once."""

    log: Path | None

    def __init__(self, settings: Settings, scenario: Scenario, name: str) -> None:
        self.name = name
        self.log = None
        self._records = LiveRecords(scenario.datastore)
        self._shipper = Shipper(kafka_access(settings, PRINCIPAL), lambda: None)

    def send(self, line: ScenarioLine, text: str) -> None:
        """Send a line, and return when Kafka has it."""
        record = self._records.make(line, text, datetime.now(UTC))
        topic = f"esxi.{record['source']}"
        message = {"key": kafka_key(record).encode(), "value": orjson.dumps(record)}
        self._shipper.send(topic, [message])
        self._shipper.flush()


class LiveRecords:
    """Creates the records of the scenario's lines, as from the network or from a VM's log."""

    def __init__(self, datastore: str) -> None:
        self._datastore = datastore
        self._wire = WireRecords()
        self._logs: dict[str, tuple[LineRecords, int]] = {}

    def make(self, line: ScenarioLine, text: str, now: datetime) -> Record:
        """Return the record of a line that is sent at `now`."""
        raw = text.encode()
        if not line.vm:
            return self._wire.make(raw, LOOPBACK, now)
        if line.vm not in self._logs:
            origin = Origin(
                run_id="live",
                source="vmware_log",
                vm=line.vm,
                datastore=self._datastore,
                file=f"/vmfs/volumes/{self._datastore}/{line.vm}/vmware.log",
                generation=generation_of(raw),
            )
            self._logs[line.vm] = (LineRecords(origin, written_at=now), 0)
        lines, offset = self._logs[line.vm]
        self._logs[line.vm] = (lines, offset + len(raw) + 1)
        return lines.make(raw, utc_text(now), offset, len(raw) + 1)
