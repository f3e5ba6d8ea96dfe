"""Passwords and keys are only in files of mode 600, never in arguments or the environment."""

from __future__ import annotations

import os
import runpy
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stunwatch import access
from stunwatch.local import clickhouse as clickhouse_component
from stunwatch.local import collectors, supervision
from stunwatch.local.component import Component
from stunwatch.local.components import COMPONENTS
from stunwatch.local.passwords import without_secrets
from stunwatch.local.principals import make_what_is_missing
from stunwatch.settings import ROOT, Settings, load_settings

SUPERSET = ROOT / "infra" / "superset"
OF_A_VCENTER = "sesame of the vCenter"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A secured pipeline as prepared by `up --secure --collect`; nothing is started."""
    made = replace(load_settings({}), home=tmp_path_factory.mktemp("home"), secure=True)
    made.make_folders()
    make_what_is_missing(made)
    # Files that a first start would create with Java and Superset.
    for name in ("kafka/meta.properties", "superset/metadata.db"):
        (made.home / name).parent.mkdir()
        (made.home / name).touch()
    collectors.switch(made).touch()
    return made


@pytest.fixture
def environment(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the environment of the components, if that of `up` contains a password."""
    monkeypatch.setenv("STUNWATCH_VCENTER", "vcenter.lab.example")
    monkeypatch.setenv("STUNWATCH_VCENTER_USER", "collector@vsphere.local")
    monkeypatch.setenv("STUNWATCH_VCENTER_PASSWORD", OF_A_VCENTER)
    collectors.require_vcenter(settings)
    left = without_secrets(os.environ)
    for name in os.environ.keys() - left.keys():
        monkeypatch.delenv(name)
    return left | access.environment(settings) | collectors.environment(settings)


def secrets_of(settings: Settings) -> set[str]:
    found = {OF_A_VCENTER}
    for folder in (settings.secrets, settings.certificates):
        for each in folder.iterdir():
            if each.suffix not in (".crt", ".srl"):
                found |= {line for line in each.read_text().splitlines() if len(line) > 15}
    return found - {"collector@vsphere.local"}


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda each: each.name)
def test_no_component_is_started_with_a_secret(
    settings: Settings,
    environment: dict[str, str],
    component: Component,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An installed ClickHouse reads passwords only from its environment (docs/security.md).
    monkeypatch.setattr(clickhouse_component, "installed", lambda: None)
    launch = component.launch(settings)
    seen = "\0".join([*launch.command, *(environment | launch.environment).values()])
    assert not [each for each in secrets_of(settings) if each in seen]


def test_the_supervisors_configuration_contains_no_secret(
    settings: Settings, environment: dict[str, str]
) -> None:
    text = supervision.configuration(settings, COMPONENTS) + "\0".join(environment.values())
    assert not [each for each in secrets_of(settings) if each in text]


def test_every_secret_is_a_file_readable_only_by_its_owner(
    settings: Settings, environment: dict[str, str]
) -> None:
    assert collectors.credentials_file(settings).read_text().splitlines() == [
        "collector@vsphere.local",
        OF_A_VCENTER,
    ]
    assert {stat.S_IMODE(each.stat().st_mode) for each in settings.secrets.iterdir()} == {0o600}


def test_the_embedded_clickhouse_reads_its_passwords_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "admin").write_text("sesame\n")
    monkeypatch.setenv("STUNWATCH_CLICKHOUSE_ADMIN_PASSWORD_FILE", str(tmp_path / "admin"))
    monkeypatch.delenv("STUNWATCH_CLICKHOUSE_ADMIN_PASSWORD", raising=False)
    runpy.run_path(str(clickhouse_component.CONFIG / "server.py"))["read_secrets"]()
    assert os.environ.pop("STUNWATCH_CLICKHOUSE_ADMIN_PASSWORD") == "sesame"


def test_kafkas_container_passes_no_password_as_an_argument(tmp_path: Path) -> None:
    script = (ROOT / "infra/kafka/start").read_text()
    (tmp_path / "secrets").mkdir()
    for user in ("flink", "replay"):
        (tmp_path / "secrets" / f"kafka_{user}").write_text(f"sesame-of-{user}")
    said = tmp_path / "said"
    for name in ("kafka-storage.sh", "kafka-server-start.sh"):
        tool = tmp_path / name
        # Records its arguments and the content of files given as @path.
        tool.write_text(
            f'#!/bin/bash\necho "arguments: $*" >>{said}\n'
            f'for each; do case $each in @*) stat -c "mode: %a" "${{each#@}}" >>{said};'
            f' sed "s/^/file: /" "${{each#@}}" >>{said};; esac; done\n'
        )
        tool.chmod(0o700)
    for old, new in (
        ("HOME_FOLDER=/var/lib/stunwatch", f"HOME_FOLDER={tmp_path}"),
        ("DATA=/var/lib/kafka/data", f"DATA={tmp_path}/data"),
        ("KAFKA=/opt/kafka/bin", f"KAFKA={tmp_path}"),
        ("SETTINGS=/tmp/kafka.properties", f"SETTINGS={tmp_path}/kafka.properties"),
        ("/opt/stunwatch/kafka/", f"{ROOT}/infra/kafka/"),
    ):
        assert old in script
        script = script.replace(old, new)
    (tmp_path / "start").write_text(script)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    words = ["bash", str(tmp_path / "start")]
    subprocess.run(words, check=True, env=os.environ | {"TMPDIR": str(temporary)})
    lines = said.read_text().splitlines()
    assert not [each for each in lines if each.startswith("arguments") and "sesame" in each]
    assert [each for each in lines if each.startswith("file") and "sesame-of-flink" in each]
    assert "mode: 600" in lines
    assert not list(temporary.iterdir())


def superset_module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(members)
    return made


@pytest.mark.parametrize("is_there", [True, False], ids=["changed_before", "first_start"])
def test_supersets_password_is_set_only_when_the_administrator_is_created(
    is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    class Manager:
        find_user = staticmethod(lambda _: object() if is_there else None)
        find_role = staticmethod(lambda _: object())
        add_user = staticmethod(lambda *_: calls.append("add_user"))

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *_: calls.append(name)

    class Session:
        commit = staticmethod(lambda: None)

    database = superset_module("db", session=Session())
    stubs = {
        "flask": superset_module("flask", Flask=object),
        "superset": superset_module("superset", db=database, security_manager=Manager()),
        "superset.app": superset_module("superset.app", create_app=object),
        "secret_files": superset_module("secret_files", secret=lambda _: "sesame"),
    }
    for name, stub in stubs.items():
        monkeypatch.setitem(sys.modules, name, stub)
    runpy.run_path(str(SUPERSET / "provision.py"))["_add_administrator"]()
    assert calls == ([] if is_there else ["add_user"])


def test_superset_prefers_secrets_from_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = runpy.run_path(str(SUPERSET / "secret_files.py"))["secret"]
    monkeypatch.setenv("STUNWATCH_OF_A_TEST", "of the environment")
    assert secret("STUNWATCH_OF_A_TEST") == "of the environment"
    (tmp_path / "file").write_text("of the file\n")
    monkeypatch.setenv("STUNWATCH_OF_A_TEST_FILE", str(tmp_path / "file"))
    assert secret("STUNWATCH_OF_A_TEST") == "of the file"
    assert secret("STUNWATCH_OF_NO_TEST", "") == ""
    with pytest.raises(KeyError):
        secret("STUNWATCH_OF_NO_TEST")
