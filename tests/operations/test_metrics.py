"""Metrics of a real pipeline: all metrics that rules use are served, with correct values."""

from __future__ import annotations

import re
import time
import urllib.request
from datetime import UTC, datetime

import pytest
import yaml

from stunwatch.local import clickhouse, supervision
from stunwatch.settings import ROOT
from tests.end_to_end.test_live import live, vmware_log
from tests.pipeline import Pipeline

PROMETHEUS = ROOT / "infra" / "prometheus"
NAMES = re.compile(r"\b((?:stunwatch|flink|ClickHouse)\w+)")
SERIES = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)(?: \d+)?$")


def scrape(port: int) -> dict[tuple[str, str], float]:
    """Return the metrics served on a port: (name, labels as written) to value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=15) as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = [SERIES.match(line) for line in lines]
    assert all(found), [line for line, each in zip(lines, found, strict=True) if not each]
    return {(each[1], each[2] or ""): float(each[3]) for each in found if each}


def test_every_metric_used_by_a_rule_is_served(pipeline: Pipeline) -> None:
    of_topic = ("stunwatch_topic_messages_total", 'topic="esxi.vmware_log"')
    before = scrape(pipeline.settings.metrics_port)[of_topic]
    maker, now = vmware_log("measured01"), datetime.now(UTC)
    pipeline.ship("esxi.vmware_log", live(maker, "Checkpoint_Unstun: vm stopped for 48211 us", now))
    pipeline.wait_for("SELECT count() FROM stuns WHERE vm = 'measured01'", 1)
    settings = pipeline.settings
    own = scrape(settings.metrics_port)
    told = {name for name, _ in own}
    for port in (
        settings.clickhouse_http_port,
        settings.jobmanager_metrics_port,
        settings.taskmanager_metrics_port,
    ):
        told |= {name for name, _ in scrape(port)}
    rules = yaml.safe_load((PROMETHEUS / "rules.yaml").read_text())
    named = {
        name
        for group in rules["groups"]
        for rule in group["rules"]
        for name in NAMES.findall(re.sub(r'"[^"]*"', '""', rule["expr"]))
    }
    assert named - told == set()

    assert own["stunwatch_live_job_running", ""] == 1
    assert own[of_topic] == before + 1
    assert own["stunwatch_component_healthy", 'component="kafka"'] == 1
    assert own["stunwatch_stored_rows", 'table="stuns_stored"'] >= 1
    assert 0 <= own["stunwatch_detection_latency_seconds", 'quantile="0.95"'] < 60
    is_open = "state = 'open' AND severity = 'critical'"
    open_incidents = pipeline.one(
        f"SELECT count() FROM incidents WHERE {is_open} AND run_id = 'live'"
    )
    assert own["stunwatch_open_incidents", 'severity="critical"'] == open_incidents


@pytest.mark.slow
def test_metrics_of_a_stopped_component_are_left_out(pipeline: Pipeline) -> None:
    supervisor = supervision.connect(pipeline.settings)
    assert supervisor is not None
    supervisor.stop("clickhouse")
    try:
        own = scrape(pipeline.settings.metrics_port)
    finally:
        supervisor.start("clickhouse")
        deadline = time.monotonic() + 60
        while unhealthy_reason := clickhouse.unhealthy_reason(pipeline.settings):
            assert time.monotonic() < deadline, unhealthy_reason
            time.sleep(0.1)
    # ClickHouse reads Kafka again some seconds after it is healthy; the audit at the end needs it.
    maker, now = vmware_log("restarted01"), datetime.now(UTC)
    pipeline.ship("esxi.vmware_log", live(maker, "Checkpoint_Unstun: vm stopped for 48211 us", now))
    pipeline.wait_for("SELECT count() FROM stuns WHERE vm = 'restarted01'", 1, seconds=120)
    assert own["stunwatch_component_healthy", 'component="clickhouse"'] == 0
    assert own["stunwatch_component_healthy", 'component="kafka"'] == 1
    assert not [name for name, _ in own if name == "stunwatch_stored_rows"]
    assert (pipeline.settings.logs / "metrics.log").read_text() == ""
