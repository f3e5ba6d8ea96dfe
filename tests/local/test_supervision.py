"""The configuration of supervisord."""

from __future__ import annotations

import configparser
import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from stunwatch.errors import UserError
from stunwatch.local import collectors, supervision
from stunwatch.local.components import COMPONENTS
from stunwatch.settings import ROOT, Settings, load_settings


def parsed(settings: Settings) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read_string(supervision.configuration(settings, COMPONENTS))
    return parser


def test_it_listens_only_on_a_socket_in_its_home() -> None:
    settings = load_settings({})
    parser = parsed(settings)
    assert parser["unix_http_server"]["file"] == str(settings.run / "supervisor.sock")
    assert "inet_http_server" not in parser


def test_components_are_restarted_for_ever_and_stop_with_their_children() -> None:
    parser = parsed(load_settings({}))
    for each in COMPONENTS:
        program = parser[f"program:{each.name}"]
        assert program["autorestart"] == "true"
        assert int(program["startretries"]) > 1_000_000
        assert program["stopasgroup"] == program["killasgroup"] == "true"


def test_it_contains_no_password(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "admin").write_text("sesame\n")
    assert "sesame" not in supervision.configuration(settings, COMPONENTS)


def test_percent_signs_in_paths_are_escaped() -> None:
    settings = replace(load_settings({}), home=Path("/srv/100%full"))
    parser = parsed(settings)
    assert parser["supervisord"]["directory"] == "/srv/100%%full"
    assert 'STUNWATCH_HOME="/srv/100%%full"' in parser["supervisord"]["environment"]


def test_a_change_of_supersets_configuration_restarts_the_pipeline() -> None:
    known = {path.name for path in supervision.CONFIGURED_BY}
    assert {"serve.py", "superset_config.py", "colours.py", "gunicorn.conf.py"} <= known
    assert "grains.py" in known


def test_another_port_changes_the_configuration() -> None:
    settings = load_settings({})
    other = replace(settings, kafka_port=29092)
    before, after = (supervision.configuration(each, COMPONENTS) for each in (settings, other))
    assert before != after


def test_a_home_too_long_for_a_socket_path_is_rejected() -> None:
    settings = replace(load_settings({}), home=Path("/" + "deep/" * 30))
    with pytest.raises(UserError, match=r"too long for a Unix socket\. .* STUNWATCH_HOME"):
        supervision.start(settings, "")


def test_components_depend_only_on_earlier_ones() -> None:
    started: set[str] = set()
    for each in COMPONENTS:
        assert started.issuperset(each.after)
        started.add(each.name)


def test_collectors_run_only_if_up_collect_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(load_settings({}), home=tmp_path)
    monkeypatch.setenv("STUNWATCH_VCENTER", "vcenter.lab.example")
    monkeypatch.setenv("STUNWATCH_VCENTER_PASSWORD", "sesame")
    wanted = [each.name for each in COMPONENTS if each.is_wanted(settings)]
    assert not [name for name in wanted if name.startswith("collect")]
    assert "vcenter.lab.example" not in supervision.configuration(settings, COMPONENTS)
    collectors.switch(settings).touch()
    wanted = [each.name for each in COMPONENTS if each.is_wanted(settings)]
    assert wanted[-3:] == ["collect-vmlogs", "collect-latency", "collect-inventory"]
    text = supervision.configuration(settings, COMPONENTS)
    assert "vcenter.lab.example" in text
    assert "sesame" not in text


def test_collecting_needs_a_vcenter(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("STUNWATCH_VCENTER")]:
        monkeypatch.delenv(name)
    with pytest.raises(UserError, match="STUNWATCH_VCENTER"):
        collectors.require_vcenter(load_settings({}))


def test_containers_run_the_same_collectors_as_local_mode() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for each in collectors.COMPONENTS:
        assert services[each.name]["command"] == [each.name]
        assert services[each.name]["profiles"] == ["collect"]


def test_kubernetes_runs_the_same_collectors_as_local_mode() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    objects = list(yaml.safe_load_all((ROOT / "infra/k8s/base/collectors.yaml").read_text()))
    settings = next(each["data"] for each in objects if each["kind"] == "ConfigMap")
    known = {*compose["x-project"]["environment"], *collectors.TOLD_BY}
    assert settings.keys() <= known
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in objects
        if each["kind"] == "Deployment"
    }
    assert pods.keys() == {each.name for each in collectors.COMPONENTS}
    for name, pod in pods.items():
        [container] = pod["containers"]
        assert container["args"] == [name]
        assert container["image"] == compose["x-project"]["image"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
