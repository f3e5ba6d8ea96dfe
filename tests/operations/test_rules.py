"""promtool accepts Prometheus's configuration and rules, and its tests of the rules pass."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from stunwatch.local.fetch import ensure_promtool
from stunwatch.settings import ROOT, load_settings

FOLDER = ROOT / "infra" / "prometheus"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]
]
TESTS = sorted((FOLDER / "tests").glob("*.yaml"))


@pytest.fixture(scope="module")
def promtool() -> Path:
    return ensure_promtool(load_settings({}), Console(stderr=True))


def run(*words: str | Path) -> str:
    done = subprocess.run(words, cwd=FOLDER / "tests", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow  # it must be compiled
def test_promtool_accepts_the_configuration(promtool: Path) -> None:
    assert "SUCCESS" in run(promtool, "check", "config", FOLDER / "prometheus.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("tests", TESTS, ids=lambda path: path.stem)
def test_rules_fire_when_they_must_and_not_earlier(promtool: Path, tests: Path) -> None:
    run(promtool, "test", "rules", tests)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_rule_has_a_runbook_and_tests_that_fire_and_do_not_fire(
    rule: dict[str, object],
) -> None:
    annotations = rule["annotations"]
    assert isinstance(annotations, dict)
    assert (ROOT / annotations["runbook"]).is_file()
    fires, is_silent = set(), set()
    for path in TESTS:
        for test in yaml.safe_load(path.read_text())["tests"]:
            for each in test["alert_rule_test"]:
                (fires if "exp_alerts" in each else is_silent).add(each["alertname"])
    assert rule["alert"] in fires
    assert rule["alert"] in is_silent


def test_containers_scrape_the_same_jobs_as_local_mode() -> None:
    def jobs(name: str) -> dict[str, list[str]]:
        found = yaml.safe_load((FOLDER / name).read_text())
        return {
            each["labels"]["job"]: [re.sub(".*:", "", one) for one in each["targets"]]
            for each in found
        }

    local, contained = jobs("targets/local.yaml"), jobs("containers/targets.yaml")
    assert local.keys() == contained.keys()
    ports = {str(port) for _, _, port in load_settings({}).ports()}
    assert {*local["stunwatch"], *local["clickhouse"], *local["flink"]} <= ports
    assert local["flink"] == contained["flink"]
