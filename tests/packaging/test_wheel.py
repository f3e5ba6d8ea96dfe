"""Install the wheel into a new environment and run it in an empty folder: core, then pipeline."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stunwatch import definitions, schema
from stunwatch.cli import demo
from stunwatch.dashboards import assets
from stunwatch.folders import PACKAGE
from stunwatch.local import clickhouse, fetch, flink, kafka, principals, superset, supervision
from stunwatch.settings import ROOT, load_settings
from tests.pipeline import settings_in

pytestmark = pytest.mark.slow

UV = str(Path(sys.executable).with_name("uv"))

READ = """
import stunwatch
from pathlib import Path
from stunwatch.ingest.replay import Options, Reading, plan
from stunwatch.engine.owner import Owner
from stunwatch.incidents.correlator import Correlator

incident = Path(stunwatch.__file__).parent / "demo" / "incident"
with plan([incident], Options()) as what:
    files = [Reading(each, "test", Options()) for each in what.files]
    records = [record for each in files for messages in each for *_, record in messages]
lines = sum(each.lines_read for each in files)
stuns = sum("Checkpoint_Unstun: vm stopped for" in each.get("message", "") for each in records)
print(lines, stuns)
"""
"""Reads the demo's incident with the core's parsers; prints the numbers of lines and stun lines."""


def run(
    *words: str | Path, environment: dict[str, str] | None = None, check: bool = False
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(each) for each in words], env=environment, capture_output=True, text=True, check=check
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT, check=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    def installed(extra: str) -> Path:
        """Install the wheel with an extra; return the folder of the environment's commands."""
        place = tmp_path_factory.mktemp("environment")
        run(UV, "venv", "--quiet", "--python", sys.executable, place, check=True)
        python = place / "bin" / "python"
        into = ("--compile-bytecode", "--python", python)
        run(UV, "pip", "install", "--quiet", *into, f"{wheel}{extra}", check=True)
        return place / "bin"

    return installed


@pytest.fixture(scope="module")
def core(install: Callable[[str], Path]) -> Path:
    return install("")


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, with an empty data folder. It must stay empty."""
    for name in [each for each in os.environ if each.startswith(("STUNWATCH_", "PYTHON"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    assert list(folder.iterdir()) == []


def test_the_wheel_contains_all_files_that_commands_read(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        carried = {each for each in archive.namelist() if not each.endswith("/")}
    places = [
        *supervision.CONFIGURED_BY,
        *(clickhouse.CONFIG / each for each in ("server.py", "users.xml")),
        *(flink.CONFIG / each for each in ("pom.xml", "jars.sha256", "log4j-cli.properties")),
        *(kafka.CONFIG / each for each in ("pom.xml", "jars.sha256", "topics.yaml")),
        *(superset.CONFIG / each for each in ("pyproject.toml", "uv.lock", "gunicorn.conf.py")),
        *(path for path in fetch.PREFILTER.glob("src/**/*") if path.is_file()),
        *(path for path in schema.SQL.rglob("*.sql")),
        *(path for path in assets.ASSETS.rglob("*.yaml")),
        *(path for path in definitions.SCHEMAS.glob("*.*") if path.suffix != ".md"),
        load_settings({}).alerts,
        principals.ACLS,
        principals.MAKE_CERTIFICATES,
    ]
    missing = {f"stunwatch/root/{each.relative_to(ROOT)}" for each in places} - carried
    assert missing == set()
    data = [
        *(path for path in demo.INCIDENT.rglob("*") if path.is_file()),
        *(PACKAGE / "ingest").rglob("*.lua"),
        *(PACKAGE / "detectors").glob("*/detector.yaml"),
        PACKAGE / "ingest" / "parsers.yaml",
    ]
    assert {f"stunwatch/{each.relative_to(PACKAGE)}" for each in data} <= carried
    assert not [each for each in carried if "/cases/" in each or "/target/" in each]


def test_the_wheel_installs_only_the_package_stunwatch(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        claimed = {each.partition("/")[0] for each in archive.namelist()}
    assert sorted(claimed) == [
        "stunwatch",
        f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info",
    ]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["replay", "--help"]])
def test_help_works_with_only_the_core_installed(core: Path, empty: Path, words: list[str]) -> None:
    done = run(core / "stunwatch", *words)
    assert done.returncode == 0, done.stderr
    assert "stunwatch" in done.stdout


def test_the_core_reads_the_bundled_incident(core: Path, empty: Path) -> None:
    done = run(core / "python", "-c", READ)
    assert done.returncode == 0, done.stderr
    lines, stuns = map(int, done.stdout.split())
    assert lines > 3000
    assert stuns > 10


def test_a_pipeline_command_in_the_core_names_the_missing_extra(core: Path, empty: Path) -> None:
    done = run(core / "stunwatch", "up")
    assert done.returncode == 2
    assert "apache-flink" in done.stderr
    assert "pipx install --force '.[pipeline]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.release
def test_the_demo_runs_from_the_wheel_in_an_empty_folder(
    install: Callable[[str], Path], empty: Path, tmp_path: Path
) -> None:
    commands = install("[pipeline]")
    ports = {
        name: value
        for name, value in settings_in(tmp_path).environment().items()
        if name.endswith("_PORT")
    }
    environment = {**os.environ, **ports}
    try:
        done = run(commands / "stunwatch", "demo", environment=environment)
        assert done.returncode == 0, done.stderr
        assert "sql01" in done.stdout
        data = tmp_path / "data" / "stunwatch"
        assert {each.name for each in data.iterdir()} == {"build", "var"}
    finally:
        run(commands / "stunwatch", "down", environment=environment)
