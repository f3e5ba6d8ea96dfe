"""The demo runs its own Fluent Bit next to the user's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stunwatch.access import switch
from stunwatch.cli.demo import command_name
from stunwatch.demo.scenario import load
from stunwatch.demo.shippers import CONFIGURATION, environment, shipper
from tests.pipeline import settings_in

FOLDER = Path("/demo")
VARIABLE = re.compile(r"\$\{(STUNWATCH_\w+)")


def made(outer: dict[str, str], home: Path) -> dict[str, str]:
    return environment(outer, settings_in(home), FOLDER, 20001, 20002)


def test_settings_of_another_fluent_bit_are_not_passed_to_the_demos(tmp_path: Path) -> None:
    users = dict.fromkeys(VARIABLE.findall(CONFIGURATION.read_text()), "users")
    found = made(users | {"STUNWATCH_MAX_LINES": "1", "PATH": "/usr/bin"}, tmp_path)
    assert "users" not in found.values()
    assert "STUNWATCH_MAX_LINES" not in found
    assert found["PATH"] == "/usr/bin"


def test_the_demos_fluent_bit_has_its_own_folders_and_ports(tmp_path: Path) -> None:
    found = made({}, tmp_path)
    for name in ("STUNWATCH_HOME", "STUNWATCH_VMWARE_LOG_PATH", "STUNWATCH_ESXTOP_PATH"):
        assert found[name].startswith(str(FOLDER))
    assert found["STUNWATCH_SYSLOG_UDP_PORT"] == "20001"
    assert found["STUNWATCH_SYSLOG_LINES_PORT"] == "20002"
    assert found["STUNWATCH_LISTEN"] == "127.0.0.1"
    assert found.keys() <= {*VARIABLE.findall(CONFIGURATION.read_text())}


def test_fluent_bit_logs_in_if_kafka_is_secured(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.secrets.mkdir()
    (settings.secrets / "kafka_fluent-bit").write_text("secret\n")
    switch(settings).touch()
    found = environment({}, settings, FOLDER, 20001, 20002)
    assert found["STUNWATCH_KAFKA_SECURITY_PROTOCOL"] == "sasl_ssl"
    assert found["STUNWATCH_KAFKA_FLUENT_BIT_PASSWORD"] == "secret"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\nexit 3\n", "fluent-bit ended with exit code 3; its log: "),
        ("#!/nowhere\n", "cannot be started: No such file or directory"),
    ],
)
def test_python_ships_the_lines_if_fluent_bit_does_not_start(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "fluent-bit"
    program.parent.mkdir()
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    settings = settings_in(tmp_path)
    settings.make_folders()
    with shipper(settings, load()) as ships:
        assert ships.name.startswith("the Python shipper (")
        assert reason in ships.name
    assert not list(settings.run.iterdir())


@pytest.mark.parametrize(
    ("called", "shown"),
    [
        (".venv/bin/stunwatch", ".venv/bin/stunwatch"),
        ("{cwd}/.venv/bin/stunwatch", ".venv/bin/stunwatch"),
        ("{cwd}/bin/stunwatch", "stunwatch"),  # it is on the PATH
        ("/elsewhere/stunwatch", "/elsewhere/stunwatch"),
        ("/usr/lib/python3/pytest/__main__.py", "stunwatch"),
    ],
)
def test_commands_are_shown_in_the_way_the_user_called_stunwatch(
    called: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "stunwatch"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr("sys.argv", [called.format(cwd=tmp_path)])
    assert command_name() == shown
