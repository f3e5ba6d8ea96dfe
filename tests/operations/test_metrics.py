"""A real pipeline's metrics: every one that a rule names is told, and tells what is."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import yaml

from stunwatch.runtime import supervision
from stunwatch.settings import ROOT
from tests.end_to_end.conftest import Pipeline, settings_in
from tests.end_to_end.test_live import live, vmware_log

PROMETHEUS = ROOT / "infra" / "prometheus"
NAMES = re.compile(r"\b((?:stunwatch|flink|ClickHouse)\w+)")
SERIES = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)(?: \d+)?$")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    made = Pipeline(settings_in(tmp_path_factory.mktemp("measured") / "home", metrics=True))
    try:
        made.run("up")
        yield made
    finally:
        made.run("down")


def scrape(port: int) -> dict[tuple[str, str], float]:
    """What is told on a port: (name, labels as they stand) to the value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=15) as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = [SERIES.match(line) for line in lines]
    assert all(found), [line for line, each in zip(lines, found, strict=True) if not each]
    return {(each[1], each[2] or ""): float(each[3]) for each in found if each}


def test_every_metric_that_a_rule_names_is_told(measured: Pipeline) -> None:
    maker, now = vmware_log("measured01"), datetime.now(UTC)
    measured.ship("esxi.vmware_log", live(maker, "Checkpoint_Unstun: vm stopped for 48211 us", now))
    measured.wait_for("SELECT count() FROM stuns WHERE vm = 'measured01'", 1)
    settings = measured.settings
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
    assert own["stunwatch_topic_messages_total", 'topic="esxi.vmware_log"'] == 1
    assert own["stunwatch_component_healthy", 'component="kafka"'] == 1
    assert own["stunwatch_stored_rows", 'table="stuns_stored"'] >= 1
    assert 0 <= own["stunwatch_detection_latency_seconds", 'quantile="0.95"'] < 60
    assert own["stunwatch_open_incidents", 'severity="critical"'] == 0


def test_what_does_not_answer_is_left_out_and_the_rest_is_told(measured: Pipeline) -> None:
    supervisor = supervision.connect(measured.settings)
    assert supervisor is not None
    supervisor.stop("clickhouse")
    try:
        own = scrape(measured.settings.metrics_port)
    finally:
        supervisor.start("clickhouse")
    assert own["stunwatch_component_healthy", 'component="clickhouse"'] == 0
    assert own["stunwatch_component_healthy", 'component="kafka"'] == 1
    assert not [name for name, _ in own if name == "stunwatch_stored_rows"]
    assert (measured.settings.logs / "metrics.log").read_text() == ""
