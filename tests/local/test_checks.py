"""Each missing requirement of the machine is reported in one sentence."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stunwatch.errors import UserError
from stunwatch.local import checks
from stunwatch.settings import Settings, load_settings


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield int(taken.getsockname()[1])


def command_line(
    settings: Settings, environment: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stunwatch.cli", *words],
        env={**settings.environment(), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_busy_port_is_reported_with_its_process_and_the_variable(busy_port: int) -> None:
    settings = replace(load_settings({}), clickhouse_http_port=busy_port)
    # A pipeline of this checkout may use the other ports.
    (text,) = [each for each in checks.busy_ports(settings) if str(busy_port) in each]
    assert text.startswith(f"Port {busy_port}, which clickhouse needs, is in use by ")
    assert f"pid {os.getpid()}" in text
    assert text.endswith("choose another port with STUNWATCH_CLICKHOUSE_HTTP_PORT.")


def test_up_without_java_lists_the_packages_to_install(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path / "home", build=tmp_path / "build")
    done = command_line(settings, {"PATH": str(tmp_path)}, "up")
    assert done.returncode == 2
    first, *others = done.stderr.strip().splitlines()
    assert re.fullmatch(r"stunwatch: \d things are missing on this machine:", first)
    assert (
        "  Java is missing ('java' does not run): install a JDK of version 17 to 23 (Debian 12:"
        " openjdk-17-jdk-headless, Debian 13 and Ubuntu 24.04: openjdk-21-jdk-headless)." in others
    )


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.24\" 2024-07-16' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert checks.java_version() == 11
    with pytest.raises(UserError, match="Java 11 is too old: install a JDK of version 17 to 23"):
        checks.require_java()


def test_the_old_version_format_of_java_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "java"
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_391\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert checks.java_version() == 8


@pytest.mark.parametrize(("command", "name"), [("mvn", "Maven"), ("npm", "npm")])
def test_a_missing_tool_is_reported(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=f"{name} is missing .*: install "):
        checks.require_tool(command)


def test_too_little_disk_reports_free_and_required_space(tmp_path: Path) -> None:
    free_mb = checks.free_mb(tmp_path)
    with pytest.raises(UserError) as caught:
        checks.require_disk(tmp_path / "not" / "there" / "yet", free_mb + 1000, "for intake")
    assert f"{free_mb + 1000} are needed for intake" in str(caught.value)


def test_up_on_a_full_disk_prints_one_sentence(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path / "home", min_free_mb=1 << 30)
    done = command_line(settings, dict(os.environ), "up")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert re.search(r"10737\d{5} are needed for data and downloads. Free", done.stderr)


def test_doctor_reports_what_is_missing(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path / "home")
    done = command_line(settings, {"PATH": str(tmp_path), "COLUMNS": "200"}, "doctor")
    assert done.returncode == 1
    assert "Java is missing" in done.stdout
    assert "Traceback" not in done.stderr


def test_status_without_a_pipeline_exits_with_4(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path / "home")
    assert command_line(settings, {"PATH": os.environ["PATH"]}, "status").returncode == 4


def test_logs_prints_last_lines_and_suggests_names(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path)
    settings.logs.mkdir()
    (settings.logs / "kafka.log").write_text("one\ntwo\nthree\n")
    done = command_line(settings, {"PATH": os.environ["PATH"]}, "logs", "kafka", "-n", "2")
    assert done.stdout == "two\nthree\n"
    done = command_line(settings, {"PATH": os.environ["PATH"]}, "logs", "kafak")
    assert done.returncode == 2
    assert (
        done.stderr.strip()
        == "stunwatch: There is no log named kafak. Did you mean kafka? Logs: kafka."
    )
