"""What is missing on a machine is said in one sentence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stunwatch.errors import UserError
from stunwatch.runtime import checks
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


def test_a_busy_port_names_itself_its_holder_and_the_variable(busy_port: int) -> None:
    settings = replace(load_settings({}), clickhouse_http_port=busy_port)
    # A pipeline of this checkout may have the other ports.
    (text,) = [each for each in checks.busy_ports(settings) if str(busy_port) in each]
    assert text.startswith(f"Port {busy_port}, which clickhouse needs, is taken by ")
    assert f"pid {os.getpid()}" in text
    assert text.endswith("choose another port with STUNWATCH_CLICKHOUSE_HTTP_PORT.")


def test_without_java_up_says_so_in_one_sentence(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path / "home", build=tmp_path / "build")
    done = command_line(settings, {"PATH": str(tmp_path)}, "up")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "stunwatch: Java is missing ('java' does not run):"
        " install Java 17 (Debian: openjdk-17-jdk-headless)."
    )


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.24\" 2024-07-16' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert checks.java_version() == 11
    with pytest.raises(UserError, match="Java 11 is too old: install Java 17"):
        checks.require_java()


def test_javas_old_way_to_number_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "java"
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_391\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert checks.java_version() == 8


@pytest.mark.parametrize(("command", "name"), [("mvn", "Maven"), ("npm", "npm")])
def test_a_missing_tool_is_named(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=f"{name} is missing .*: install "):
        checks.require_tool(command)


def test_too_little_disk_says_how_much_is_left_and_needed(tmp_path: Path) -> None:
    free_mb = checks.free_mb(tmp_path)
    with pytest.raises(UserError) as caught:
        checks.require_disk(tmp_path / "not" / "there" / "yet", free_mb + 1000, "for intake")
    assert f"{free_mb + 1000} are needed for intake" in str(caught.value)


def test_up_on_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path / "home", min_free_mb=1 << 30)
    done = command_line(settings, dict(os.environ), "up")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "1073741824 are needed for intake: free some space." in done.stderr


def test_doctor_names_what_is_missing(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path / "home")
    done = command_line(settings, {"PATH": str(tmp_path), "COLUMNS": "200"}, "doctor")
    assert done.returncode == 1
    assert "Java is missing" in done.stdout
    assert "Traceback" not in done.stderr


def test_status_of_nothing_exits_with_4(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path / "home")
    assert command_line(settings, {"PATH": os.environ["PATH"]}, "status").returncode == 4


def test_logs_lists_what_there_is(tmp_path: Path) -> None:
    settings = replace(load_settings({}), home=tmp_path)
    settings.logs.mkdir()
    (settings.logs / "kafka.log").write_text("one\ntwo\nthree\n")
    done = command_line(settings, {"PATH": os.environ["PATH"]}, "logs", "kafka", "-n", "2")
    assert done.stdout == "two\nthree\n"
    done = command_line(settings, {"PATH": os.environ["PATH"]}, "logs", "kafak")
    assert done.returncode == 2
    assert done.stderr.strip() == "stunwatch: There is no log named kafak; there are: kafka."
