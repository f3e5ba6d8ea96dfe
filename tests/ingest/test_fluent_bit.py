"""Fluent Bit, run with the project's configuration, makes the same records as Python.

It ships to a mock broker of librdkafka on loopback, so that the configuration runs unchanged.
Needs `fluent-bit` on the PATH, and `openssl` for a certificate.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from stunwatch import cli
from stunwatch.detectors.catalogue import detector
from stunwatch.ingest.records import MAX_LINE_BYTES, NO_VM, WireRecords, kafka_key
from stunwatch.ingest.replay import Options, plan, records
from stunwatch.local.trial import free_ports
from tests.corpus.cases import cases

ROOT = Path(__file__).resolve().parents[2]
INGEST = ROOT / "ingest"
CASES = Path(__file__).with_name("cases")
CORPUS = Path(os.environ.get("STUNWATCH_CORPUS", ROOT.parent / "shared/corpus"))
CONFIGURATION = INGEST / "fluent-bit.yaml"
VARIABLE = re.compile(r"\$\{(STUNWATCH_\w+):-([^}]*)\}")
LIMIT = re.compile(r'os\.getenv\("(\w+)"\) or ""\) or (\d+)')
TOPICS = ("esxi.syslog", "esxi.vmware_log", "esxi.esxtop", "esxi.rejected")
PATIENCE_S = 20.0

needs_fluent_bit = pytest.mark.skipif(
    shutil.which("fluent-bit") is None or shutil.which("openssl") is None,
    reason="there is no fluent-bit, or no openssl, on the PATH",
)

Message = tuple[str, str, str]  # topic, key, the record as JSON with sorted keys


@dataclass
class Collector:
    """A running Fluent Bit, and the broker to which it ships."""

    home: Path
    ports: dict[str, int]
    consumer: Consumer
    process: subprocess.Popen[bytes] | None = None
    receiver: subprocess.Popen[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def vmware_log(self) -> Path:
        return self.home / "vmfs/volumes/ds-gold/web01/vmware.log"

    @property
    def esxtop(self) -> Path:
        return self.home / "esxtop/esx01/night.csv"

    def start(self) -> None:
        with (self.home / "fluent-bit.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["fluent-bit", "-c", str(CONFIGURATION)],
                cwd=self.home,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: accepts(self.ports["STUNWATCH_SYSLOG_LINES_PORT"]))

    def start_receiver(self) -> None:
        with (self.home / "receiver.log").open("ab") as log:
            self.receiver = subprocess.Popen(
                [sys.executable, "-m", "stunwatch.cli", "receive", "--tls"],
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: accepts(self.ports["STUNWATCH_SYSLOG_TLS_COUNTED_PORT"]))

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def receive(self, count: int) -> list[Message]:
        """Return the next `count` messages, and any that arrive within half a second more."""
        received: list[Message] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = self.consumer.poll(0.5 if len(received) >= count else 0.1)
            if message is None:
                if len(received) >= count:
                    break
                continue
            assert message.error() is None, message.error()
            record = json.loads(message.value())
            received.append(comparable(message.topic(), message.key().decode(), record))
        return sorted(received)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "Fluent Bit or the receiver did not start in time"
        time.sleep(0.05)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def comparable(topic: str, key: str, record: dict[str, Any]) -> Message:
    """Remove the time of arrival, which differs, and normalise numbers: 120 is 120.0."""
    unequal = {"received_at", "event_time" if record.get("time_quality") == "arrival" else ""}
    text = json.dumps({name: each for name, each in record.items() if name not in unequal})
    return topic, key, json.dumps(json.loads(text, parse_int=float), sort_keys=True)


def from_wire(messages: Iterable[bytes], maker: WireRecords | None = None) -> list[Message]:
    """Return the messages that Python makes from syslog messages."""
    maker = maker or WireRecords()
    made = []
    for data in messages:
        record = maker.make(data, "127.0.0.1", datetime.now(UTC))
        topic = "rejected" if "reason" in record else record["source"]
        made.append(comparable(f"esxi.{topic}", kafka_key(record), record))
    return sorted(made)


def from_file(path: Path, options: Options | None = None) -> list[Message]:
    """Return the messages that Python makes from a file, as if it were live."""
    made = []
    with plan([path], options or Options()) as what:
        for source in what.files:
            for topic, key, record in records(source, "live", options or Options()):
                if record.get("kind") != "progress":
                    live = topic.replace("backfill", record["source"])
                    made.append(comparable(live, key, record))
    return sorted(made)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    """Return Fluent Bit with every input on a free port, not yet started."""
    broker = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    [address] = broker.list_topics(timeout=PATIENCE_S).brokers.values()
    names = ("UDP", "LINES", "TCP", "COUNTED", "TLS", "TLS_COUNTED")
    ports = {
        f"STUNWATCH_SYSLOG_{name}_PORT": port
        for name, port in zip(names, free_ports(len(names)), strict=True)
    }
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    make_certificate = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    subprocess.run(
        [*make_certificate.split(), "-subj", "/CN=collector", "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    consumer = Consumer(
        {
            "bootstrap.servers": f"{address.host}:{address.port}",
            "group.id": "test",
            "fetch.message.max.bytes": 4 << 20,
            "log_level": 0,
        }
    )
    partitions = [
        TopicPartition(name, partition, 0)
        for name in TOPICS
        # A mock broker creates a topic when a producer requests it.
        for partition in broker.list_topics(name, timeout=PATIENCE_S).topics[name].partitions
    ]
    consumer.assign(partitions)
    collector = Collector(home=tmp_path, ports=ports, consumer=consumer)
    collector.environment = {
        **os.environ,
        **{name: str(port) for name, port in ports.items()},
        "STUNWATCH_HOME": str(tmp_path),
        "STUNWATCH_KAFKA_PORT": str(address.port),
        "STUNWATCH_VMWARE_LOG_PATH": str(tmp_path / "vmfs/volumes/*/*/vmware*.log"),
        "STUNWATCH_ESXTOP_PATH": str(tmp_path / "esxtop/*/*.csv"),
        "STUNWATCH_TLS_CERTIFICATE": str(certificate),
        "STUNWATCH_TLS_KEY": str(key),
    }
    collector.vmware_log.parent.mkdir(parents=True)
    collector.esxtop.parent.mkdir(parents=True)
    yield collector
    if collector.receiver is not None:
        collector.receiver.kill()
        collector.receiver.wait()
    if collector.process is not None:
        collector.kill()
    consumer.close()
    del broker


# -- syslog

SYSLOG = [
    case["line"].encode()
    for name in ("wire", "relays")
    for case in yaml.safe_load((CASES / f"{name}.yaml").read_text())
]
HEAD = b"<14>2024-05-06T07:08:09.123Z esx01.lab.example vobd: "
SYSLOG += [
    b"",
    b"no head at all",
    b"-->   a continuation without its beginning",
    HEAD + "Büro-Server läuft".encode(),
    HEAD + "Büro-Server läuft".encode("latin-1"),
    "<14>2024-05-06T07:08:09.123Z esx01 Büro[2104567]: vcpu-0 - CPT: resumed".encode("latin-1"),
    HEAD + b'tab\there, "quotes", back\\slash, \x1b[31mcolour\x7f',
    b"<14>2024-02-30T07:08:09.123Z esx01.lab.example vobd: there is no such day",
    b"<164>NoneZ esx01.lab.example Hostd: no time anywhere",
    b"<14>2024-05-06T07:08:09.123Z 192.0.2.7 vobd: the host is an address",
    b"May 06 07:08:09 relay01 2024-05-06T07:08:09.123Z esx01 no program",
    "May 06 07:08:09 relay01 <14>2024-05-06T07:08:09.123Z esx01 vobd: Büro".encode("latin-1"),
    b'{"message": "<14>2024-05-06T07:08:09.123Z esx01.lab.example vobd: x"}',
    b'"2024-05-06","esx01","vobd: x"',
    b"2024-05-06 07:08:09\tLocal4.Info\t192.0.2.7\tMay 06 07:08:09 esx01 vobd: x",
    b"\x1b[35mvobd: x",
]
# Only a frame with a length can contain these.
COUNTED = [
    HEAD + b"x" * MAX_LINE_BYTES,
    HEAD + "é".encode() * MAX_LINE_BYTES,
    b"a \0 in the middle",
    HEAD + b"a \0 in the middle and \0\0 at the end\0\0",
]


def send_datagrams(collector: Collector, messages: list[bytes]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for message in messages:
            sender.sendto(
                message + b"\n\0", ("127.0.0.1", collector.ports["STUNWATCH_SYSLOG_UDP_PORT"])
            )


def send_stream(collector: Collector, port: str, content: bytes) -> None:
    with socket.create_connection(("127.0.0.1", collector.ports[port])) as sender:
        if "TLS" not in port:
            sender.sendall(content)
            return
        context = ssl.create_default_context(cafile=str(collector.home / "server.crt"))
        with context.wrap_socket(sender, server_hostname="collector") as secure:
            secure.sendall(content)
            secure.unwrap()


def lines(messages: Iterable[bytes]) -> bytes:
    return b"".join(message + b"\n" for message in messages)


def counted(messages: Iterable[bytes]) -> bytes:
    return b"".join(b"%d %b" % (len(message), message) for message in messages)


@needs_fluent_bit
def test_syslog_records_are_equal_to_pythons_over_every_transport(collector: Collector) -> None:
    collector.start()
    collector.start_receiver()
    maker = WireRecords()
    not_empty = [message for message in SYSLOG if message]

    send_datagrams(collector, SYSLOG)
    assert collector.receive(len(SYSLOG)) == from_wire(SYSLOG, maker)

    for port, framed, messages in (
        ("STUNWATCH_SYSLOG_TCP_PORT", lines, not_empty),
        ("STUNWATCH_SYSLOG_COUNTED_PORT", counted, not_empty + COUNTED),
        ("STUNWATCH_SYSLOG_TLS_PORT", lines, not_empty),
        ("STUNWATCH_SYSLOG_TLS_COUNTED_PORT", counted, not_empty + COUNTED),
    ):
        send_stream(collector, port, framed(messages))
        assert collector.receive(len(messages)) == from_wire(messages, maker), port


@needs_fluent_bit
def test_a_message_of_several_lines_stays_one_record(collector: Collector) -> None:
    collector.start()
    collector.start_receiver()
    send_stream(collector, "STUNWATCH_SYSLOG_COUNTED_PORT", counted([HEAD + b"one\n  two\nthree"]))
    [(topic, key, record)] = collector.receive(1)
    assert (topic, key) == ("esxi.syslog", "esx01")
    assert json.loads(record)["message"] == "one\n  two\nthree"


@needs_fluent_bit
@pytest.mark.parametrize("port", ["STUNWATCH_SYSLOG_TCP_PORT", "STUNWATCH_SYSLOG_TLS_PORT"])
def test_empty_lines_and_nuls_between_lines_add_no_record(collector: Collector, port: str) -> None:
    collector.start()
    collector.start_receiver()
    many = [HEAD + b"line %d" % number for number in range(61)]
    content = lines(many[:20]) + b"\n" + lines(many[20:40]) + b"\0\n\0\r\n"
    content += b"\n\0".join(many[40:])  # the last one has no terminator
    send_stream(collector, port, content)
    assert collector.receive(len(many)) == from_wire(many)


@needs_fluent_bit
@pytest.mark.slow
def test_only_the_sender_above_its_limit_loses_lines(collector: Collector) -> None:
    collector.environment |= {"STUNWATCH_SENDER_RATE": "1", "STUNWATCH_SENDER_BURST": "50"}
    collector.start()
    collector.start_receiver()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as quiet:
        quiet.bind(("127.0.0.9", 0))
        quiet_port = ("127.0.0.1", collector.ports["STUNWATCH_SYSLOG_UDP_PORT"])
        quiet.sendto(HEAD + b"quiet 1", quiet_port)
        noisy = [HEAD + b"noisy %d" % number for number in range(300)]
        send_stream(collector, "STUNWATCH_SYSLOG_COUNTED_PORT", counted(noisy))
        received = collector.receive(50)
        quiet.sendto(HEAD + b"quiet 2", quiet_port)
        received += collector.receive(1)
        time.sleep(10)  # the time between two reports
        quiet.sendto(HEAD + b"quiet 3", quiet_port)
        received += collector.receive(2)
    found = [json.loads(record) for _, _, record in received]
    messages = [each["message"] for each in found if each["program"] == "vobd"]
    assert [each for each in messages if "quiet" in each] == ["quiet 1", "quiet 2", "quiet 3"]
    passed = [each for each in messages if "noisy" in each]
    assert passed == [f"noisy {number}" for number in sorted(range(50), key=str)]
    reports = [each for each in found if each["program"] == "stunwatch"]
    assert {each["host"] for each in reports} == {"127.0.0.1"}
    pattern = detector("lost_syslog").patterns["lost"]
    lost = [match for each in reports if (match := pattern.search(each["message"]))]
    assert sum(int(match["count"]) for match in lost) == 250
    assert {match["logger"] for match in lost} == {"127.0.0.1"}


# -- files

VMWARE_LOG = [
    b"no head, and no line before it",
    *(case["line"].encode() for case in yaml.safe_load((CASES / "vmware_log.yaml").read_text())),
    b"2024-05-06T07:08:09.200Z In(05) vmx - ended as on Windows\r",
    b"",
    b"   indented",
    b"\r",
    b"no head",
    "2024-05-06T07:08:09.201Z In(05) vmx - Büro-Server läuft".encode(),
    "2024-05-06T07:08:09.202Z In(05) vmx - Büro-Server läuft".encode("latin-1"),
    b"2024-05-06T07:08:09.203Z In(05) vmx - a \0 in the middle and \0 at the end\0\r",
    b"\0\0\0\0002024-05-06T07:08:09.204Z In(05) vmx - behind a hole in the file",
    b"2024-05-06T07:08:09.205Z In(05) vmx - " + b"x" * MAX_LINE_BYTES,
    b"2024-05-06T07:08:09.206Z In(05) vmx - " + b"x" * (3 << 20),
    b"2024-05-06T07:08:09.207Z In(05) vmx - " + "é".encode() * MAX_LINE_BYTES,
    b"2024-05-06T07:08:09.208Z In(05) vmx - " + "é".encode("latin-1") * MAX_LINE_BYTES,
    b"2024-05-06T07:08:09.209Z In(05) vcpu-0 - Checkpoint_Unstun: vm stopped for 48211 us",
]


def esxtop_csv() -> str:
    counters = [
        r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6001)\Average Driver MilliSec/Command",
        r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6001)\Average Kernel MilliSec/Command",
        r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6002)\Average Driver MilliSec/Command",
        r"\\esx01.lab.example\Physical Disk SCSI Device(naa.6002)\Commands/sec",
        r"\\esx01.lab.example\Physical Disk Adapter(vmhba1)\Failed Reserves/sec",
        r"\\esx01.lab.example\Virtual Disk(web, old:scsi0:0)\Average MilliSec/Read",
        r"\\esx01.lab.example\Memory\Memory Overcommit (1 Minute Avg)",
    ]
    # More objects, and longer names, than one message has.
    many = [rf"\\esx01\Physical Disk Path(vmhba1:C0:T0:L{n})\Reads/sec" for n in range(120)]
    long = [rf"\\esx01\Virtual Disk({'é' * 300}{n})\Reads/sec" for n in range(40)]
    rows = [
        ["(PDH-CSV 4.0) (Pacific Daylight Time)(-420)", *counters],
        ["05/06/2024 07:08:09", "25.95", "0.01", "1000.3", "250", "0", "3.5", "0.1"],
        ["05/06/2024 07:08:12", "-0.5", "1e3", "100.8", "no number", "", "", ""],
        ["05/06/2024 07:08:15", "1.0"],
        ["13/06/2024 07:08:18", "1.0", "1.0", "1.0", "1.0", "1.0", "1.0", "1.0"],
        ["05/06/2024 07:08:21", "", "", "", "", "", "", "0.1"],
        # esxtop was restarted with other columns
        ["(PDH-CSV 4.0) (UTC)(0)", counters[3], counters[0]],
        ["05/06/2024 14:08:24", "120", "4.25"],
        ["(PDH-CSV 4.0) (UTC)(0)", *many, *long],
        ["05/06/2024 14:08:25", *("" if n % 7 == 1 else str(n / 8) for n in range(160))],
        ["(PDH-CSV 4.0) (UTC)(0)", counters[3], counters[0]],
    ]
    return "".join(",".join(f'"{value}"' for value in row) + "\n" for row in rows)


@needs_fluent_bit
@pytest.mark.parametrize(
    "beginning",
    [b"", b"\0" * 3_000_000, b"\xef\xbb\xbf"],
    ids=["usual", "NULs", "byte order mark"],
)
def test_records_of_files_are_equal_to_pythons(collector: Collector, beginning: bytes) -> None:
    collector.vmware_log.write_bytes(beginning + lines(VMWARE_LOG))
    collector.esxtop.write_text(esxtop_csv() + "5/6/2024 14:09,121,4.5\r\n")
    expected = sorted(
        from_file(collector.vmware_log) + from_file(collector.esxtop, Options(host="esx01"))
    )
    collector.start()
    assert collector.receive(len(expected)) == expected


@needs_fluent_bit
def test_a_file_is_continued_after_a_kill_and_after_a_rotation(collector: Collector) -> None:
    head = "2024-05-06T07:08:09.{:03d}Z In(05) vmx - line {}\n"
    log, rotated = collector.vmware_log, collector.vmware_log.with_name("vmware-1.log")
    log.write_text("".join(head.format(n, n) for n in range(10)))
    collector.esxtop.write_text(esxtop_csv())
    before = sorted(from_file(log) + from_file(collector.esxtop, Options(host="esx01")))
    collector.start()
    assert collector.receive(len(before)) == before

    collector.kill()
    with log.open("a") as more:
        # The tail input skips NULs where it starts reading.
        more.write("\0" * 3_000_000 + "".join(head.format(n, n) for n in range(10, 20)))
    with collector.esxtop.open("a") as more:
        more.write('"05/06/2024 14:08:27","121","4.5"\n')
    after = sorted(from_file(log) + from_file(collector.esxtop, Options(host="esx01")))
    after = [message for message in after if message not in before]
    collector.start()
    assert collector.receive(len(after)) == after

    with log.open("a") as more:
        log.rename(rotated)
        log.write_text(head.format(500, "of the next file"))
        more.write(head.format(20, 20))
        more.flush()
    # A rotated file keeps the name that it had when it was found.
    last = [
        (topic, key, record.replace(rotated.name, log.name))
        for topic, key, record in from_file(rotated)
        if "line 20" in record
    ]
    expected = sorted([*from_file(log), *last])
    assert collector.receive(len(expected)) == expected


# -- both


@needs_fluent_bit
@pytest.mark.slow
def test_a_stop_without_kafka_loses_at_most_the_producers_queue(collector: Collector) -> None:
    kafka_port = collector.environment["STUNWATCH_KAFKA_PORT"]
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        collector.environment |= {
            "STUNWATCH_KAFKA_PORT": str(refusing.getsockname()[1]),
            "STUNWATCH_FLUENT_BIT_GRACE": "1",
            "STUNWATCH_FLUENT_BIT_QUEUE": "100",
        }
        stamp = "2024-05-06T07:08:09.{:03d}Z In(05) vmx - tailed {}\n"
        collector.vmware_log.write_text("".join(stamp.format(n, n) for n in range(300)))
        collector.start()
        collector.start_receiver()
        sent = [f"{port} {n}" for port in ("TCP", "TLS") for n in range(300)]
        for port in ("TCP", "TLS"):
            content = lines(HEAD + b"%b %d" % (port.encode(), n) for n in range(300))
            send_stream(collector, f"STUNWATCH_SYSLOG_{port}_PORT", content)
        time.sleep(2)
        assert collector.process is not None
        collector.process.terminate()
        time.sleep(0.5)
        late = [f"late {n}" for n in range(100)]
        content = lines(HEAD + each.encode() for each in late)
        send_stream(collector, "STUNWATCH_SYSLOG_TCP_PORT", content)
        try:
            collector.process.wait(timeout=5)
        except subprocess.TimeoutExpired:  # its worker waits for space in the producer's queue
            collector.kill()
    collector.environment |= {
        "STUNWATCH_KAFKA_PORT": kafka_port,
        "STUNWATCH_FLUENT_BIT_QUEUE": "5000",
    }
    collector.start()
    found = [json.loads(record) for _, _, record in collector.receive(900)]

    messages = [each["message"] for each in found]
    assert len(messages) == len(set(messages))
    assert set(late) <= set(messages)
    expected = {*sent, *late, *(f"tailed {n}" for n in range(300))}
    assert set(messages) <= expected
    assert len(expected - set(messages)) <= 100
    # Missing offsets of a file show the loss, as in the view `coverage`.
    tailed = [each for each in found if each["source"] == "vmware_log"]
    missing = {n for n in range(300) if f"tailed {n}" not in messages}
    size = collector.vmware_log.stat().st_size
    gap_bytes = size - sum(each["line_bytes"] for each in tailed)
    assert gap_bytes == sum(len(stamp.format(n, n)) for n in missing)


@needs_fluent_bit
@pytest.mark.skipif(not CORPUS.is_dir(), reason="there is no folder of published lines")
def test_records_of_published_lines_are_equal_to_pythons(collector: Collector) -> None:
    published = [
        line
        for name in ("syslog", "vmkernel", "hostd", "vobd", "vmware")
        for line in (CORPUS / f"{name}.log").read_bytes().splitlines()
        if line
    ]
    assert_equal_records(collector, (CORPUS / "vmware.log").read_bytes(), published)


@needs_fluent_bit
def test_records_of_the_own_corpus_are_equal_to_pythons(collector: Collector) -> None:
    of_vms = [line for case in cases() if case.reads == "vmware_log" for line in case.lines]
    by_syslog = [line for case in cases() if case.reads == "wire" for line in case.lines]
    in_file = "".join(f"{line}\n" for line in of_vms).encode()
    assert_equal_records(collector, in_file, [line.encode() for line in by_syslog])


def assert_equal_records(collector: Collector, in_file: bytes, by_syslog: list[bytes]) -> None:
    collector.vmware_log.write_bytes(in_file)
    expected = from_file(collector.vmware_log)
    collector.start()
    collector.start_receiver()
    assert collector.receive(len(expected)) == expected
    send_stream(collector, "STUNWATCH_SYSLOG_TCP_PORT", lines(by_syslog))
    assert collector.receive(len(by_syslog)) == from_wire(by_syslog)


# -- the configuration


@needs_fluent_bit
def test_configuration_is_accepted() -> None:
    ran = subprocess.run(
        ["fluent-bit", "-c", str(CONFIGURATION), "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("tag", "family"), [("syslog*", "wire_"), ("vmware_log", "vmware_log_")])
def test_every_pattern_is_tried_in_the_order_of_parsers_yaml(tag: str, family: str) -> None:
    patterns = yaml.safe_load((INGEST / "parsers.yaml").read_text())["parsers"]
    filters = yaml.safe_load((INGEST / "fluent-bit.yaml").read_text())["pipeline"]["filters"]
    [tried] = [
        each["parser"] for each in filters if each["name"] == "parser" and each["match"] == tag
    ]
    assert tried == [each["name"] for each in patterns if each["name"].startswith(family)]


def test_every_variable_is_documented_with_its_default() -> None:
    page = (ROOT / "docs/point-esxi-at-it.md").read_text()
    for name, default in VARIABLE.findall(CONFIGURATION.read_text()):
        assert f"| `{name}` | `{default}` |" in page
    command = typer.main.get_command(cli.app).get_command(None, "receive")
    for option in command.params:
        for name in [option.envvar] if option.envvar else []:
            assert f"| `{name}` | `{option.default}` |" in page
    for name, default in LIMIT.findall((INGEST / "lua/limits.lua").read_text()):
        assert f"| `{name}` | `{default}` |" in page


@needs_fluent_bit
def test_datastore_and_vm_are_read_from_a_tailed_path(collector: Collector) -> None:
    """The same cases as for replay in test_vm_paths.py. Lines without a VM are not stored."""
    cases = yaml.safe_load(Path(__file__).with_name("vm_paths.yaml").read_text())
    expected = {
        str(collector.home / case["path"]): case["tailed"] for case in cases if "tailed" in case
    }
    for number, path in enumerate(map(Path, expected)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"2024-05-06T07:08:{number:02}.123Z In(05) vmx - hello\n")
    collector.environment["STUNWATCH_VMWARE_LOG_PATH"] = ",".join(expected)
    collector.start()
    received = [
        (topic, json.loads(record)) for topic, _, record in collector.receive(len(expected))
    ]
    assert {
        record["file"]: [record["datastore"], record["vm"]]
        for topic, record in received
        if topic == "esxi.vmware_log"
    } == {path: names for path, names in expected.items() if names}
    rejected = {record["file"]: record for topic, record in received if topic == "esxi.rejected"}
    assert set(rejected) == {path for path, names in expected.items() if not names}
    assert {record["reason"] for record in rejected.values()} == {NO_VM}
