"""Samples of storageRM have the datastore's name of ingest/records.py: SQL has the same rule."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import orjson

from stunwatch.ingest.records import LineRecords, Origin, datastore_name
from tests.clickhouse_server import Server

WRITTEN_AT = datetime(2016, 7, 8, 10, tzinfo=UTC)
HOSTS = ("ESX01.lab.example", "esx01", "192.0.2.17", "2001:db8::17", "7")
NAMES = ("datastore1", "datastore1 (2)", "datastore1 (123456)", "datastore10", "ds1", "Datastore1")
LINE = "2016-07-08T09:10:11.{:03}Z storageRM:  <{}> 27076 avglatency= 1.25 iops= 96"


def test_samples_of_a_hosts_own_datastore_have_the_name_of_the_host(server: Server) -> None:
    server.empty()
    pairs = list(itertools.product(HOSTS, NAMES))
    messages = []
    for number, (host, name) in enumerate(pairs):
        origin = Origin(run_id="live", host=host, file="syslog.log", generation="a")
        maker = LineRecords(origin, written_at=WRITTEN_AT)
        record = maker.make(LINE.format(number, name).encode(), "2016-07-08T09:10:12Z", number, 1)
        messages.append(("esxi.syslog", orjson.dumps(record)))
    server.read(messages)
    found = server.reader.rows("SELECT host, device FROM latency_samples ORDER BY sampled_at")
    assert found == [(host, datastore_name(name, host)) for host, name in pairs]
