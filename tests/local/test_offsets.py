"""Offsets are read from a broker that stalls: the process must survive and get its answer."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.kafka_and_clickhouse import Storing

pytestmark = pytest.mark.slow

STALLS = 8

# In a process of its own: an error inside librdkafka ends the process, not only the test.
READ_OFFSETS = """
import sys
from stunwatch import kafka

kafka.TIMEOUT_S = 1.0
broker = kafka.Kafka({"bootstrap.servers": sys.argv[1]})
print("ready", flush=True)
while True:
    broker.committed("clickhouse-records", [("esxi.backfill", 0)])
"""


def test_offsets_are_read_although_the_broker_stalls(stored: Storing) -> None:
    command = [sys.executable, "-c", READ_OFFSETS, stored.settings.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reading:
        assert reading.stdout and reading.stderr
        try:
            assert reading.stdout.readline() == b"ready\n"
            for stall in range(STALLS):
                # The answers arrive at different times after the request has timed out.
                with stored.stalled_broker():
                    time.sleep(1 + stall / 6)
                time.sleep(1)
            assert reading.poll() is None, reading.stderr.read().decode()
        finally:
            reading.kill()
