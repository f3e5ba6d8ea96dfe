"""Flink's access settings: plain, secured, in containers and in Kubernetes."""

from __future__ import annotations

import http.client
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from stunwatch.local import flink
from stunwatch.local.principals import make_what_is_missing
from stunwatch.settings import ROOT, Settings, load_settings


def written(settings: Settings) -> dict[str, Any]:
    settings.make_folders()
    flink.write_configuration(settings)
    found: dict[str, Any] = yaml.safe_load((settings.run / "flink" / "config.yaml").read_text())
    return found


@pytest.fixture
def plain(tmp_path: Path) -> Settings:
    return replace(load_settings({}), home=tmp_path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    made = replace(load_settings({}), home=tmp_path_factory.mktemp("home"), secure=True)
    make_what_is_missing(made)
    return made


def test_only_flinks_own_origin_may_read_its_answers(plain: Settings, secured: Settings) -> None:
    for settings, scheme in ((plain, "http"), (secured, "https")):
        told = written(settings)
        assert told["web.access-control-allow-origin"] == f"{scheme}://{settings.flink_rest}"
        assert told["web.submit.enable"] is False


def test_kubernetes_allows_the_same_origin_and_no_uploads() -> None:
    text = (ROOT / "infra/k8s/base/flink.yaml").read_text()
    for each in filter(None, yaml.safe_load_all(text)):
        told = each["spec"]["flinkConfiguration"]
        origin = f"http://{each['metadata']['name']}-rest:8081"
        assert told["web.access-control-allow-origin"] == origin
        assert told["web.submit.enable"] == "false"


def test_secured_flink_uses_one_certificate_on_both_sides(secured: Settings) -> None:
    told = written(secured)["security.ssl"]
    assert told["rest"]["enabled"] and told["rest"]["authentication-enabled"]
    assert told["internal"]["enabled"]
    for each in ("rest", "internal"):
        keystore = Path(told[each]["keystore"])
        assert told[each]["truststore"] == str(keystore)
        assert stat.S_IMODE(keystore.stat().st_mode) == 0o600


def test_the_secured_configuration_is_readable_only_by_its_owner(secured: Settings) -> None:
    written(secured)
    for each in (secured.run / "flink").iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each.name


def test_a_new_certificate_makes_a_new_keystore(secured: Settings) -> None:
    written(secured)
    keystore = secured.run / "flink" / "keystore.p12"
    before = keystore.read_bytes()
    for suffix in ("crt", "key"):
        (secured.certificates / f"flink.{suffix}").unlink()
    make_what_is_missing(secured)
    # The keystore's time has a resolution of one second, so set a later one.
    later = keystore.stat().st_mtime + 1
    os.utime(secured.certificates / "flink.crt", (later, later))
    written(secured)
    assert keystore.read_bytes() != before


def test_clients_use_tls_if_flink_has_a_certificate(plain: Settings, secured: Settings) -> None:
    assert type(flink._connection(plain)) is http.client.HTTPConnection
    assert isinstance(flink._connection(secured), http.client.HTTPSConnection)


def test_every_container_that_connects_to_flink_has_its_certificate() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    for name in ("jobmanager", "taskmanager", "keeper", "metrics", "stunwatch"):
        targets = {each["target"] for each in services[name]["secrets"] if isinstance(each, dict)}
        assert targets >= {
            "/var/lib/stunwatch/tls/flink.crt",
            "/var/lib/stunwatch/tls/flink.key",
        }, name


def test_a_client_finds_the_jobs_modules(plain: Settings) -> None:
    first, *_ = flink.client_environment(plain)["PYTHONPATH"].split(":")
    assert first == str(ROOT)
