"""Fetches what the pipeline runs on: pinned, checked, once.

Everything lands in `build/` by its package manager's ordinary client. A thing is made in a folder
of its own beside its place and moved there when it is whole, so a killed download leaves nothing
that looks finished.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from stunwatch.errors import UserError
from stunwatch.runtime import checks, clickhouse, flink, kafka, superset
from stunwatch.settings import ROOT, Settings, versions

PREFILTER = ROOT / "flink-jobs" / "prefilter"
VCSIM = ROOT / "infra" / "vcsim"
PROMTOOL = ROOT / "infra" / "promtool"
GO = str(Path(sys.executable).with_name("go"))
PARTIAL = ".partial-"
MAVEN = ("--batch-mode", "--quiet", "--no-transfer-progress", "--strict-checksums")


@dataclass(frozen=True)
class Fetch:
    """One thing to fetch or build: `make` puts it into an empty folder, `place` where it belongs.

    `size_mb` is what it needs on disk while it is made, in MiB.
    """

    label: str
    tool: str
    size_mb: int
    is_there: Callable[[], bool]
    make: Callable[[Path], None]
    place: Callable[[Path], object]


def ensure(settings: Settings, console: Console) -> None:
    """Fetch and build what is missing, showing progress; quick where nothing is.

    Raises:
        UserError: a tool is missing, the disk is too small, or a download failed or differs from
            its checksum.
    """
    settings.build.mkdir(parents=True, exist_ok=True)
    with _alone(settings.build / "fetch.lock"):
        missing = [each for each in fetches(settings) if not each.is_there()]
        if missing:
            _fetch(settings, missing, console)
        link_flink(settings)


def ensure_vcsim(settings: Settings, console: Console) -> Path:
    """Build the vCenter of the tests where it is missing or older than its sources; return it.

    Raises:
        UserError: Go is missing, it does not compile, or a module differs from its checksum.
    """
    label = "the tests' vCenter (govmomi's simulator, compiled here)"
    return _ensure_compiled(settings, console, "vcsim", label, 500, VCSIM, build_vcsim)


def ensure_promtool(settings: Settings, console: Console) -> Path:
    """Build Prometheus's own check of rules where it is missing; return it. It takes minutes.

    Raises:
        UserError: Go is missing, it does not compile, or a module differs from its checksum.
    """
    label = "promtool (Prometheus's, compiled here: some minutes)"
    return _ensure_compiled(settings, console, "promtool", label, 3000, PROMTOOL, build_promtool)


def _ensure_compiled(
    settings: Settings,
    console: Console,
    name: str,
    label: str,
    size_mb: int,
    sources: Path,
    make: Callable[[Path], None],
) -> Path:
    binary = settings.build / name
    wanted = Fetch(
        label,
        GO,
        size_mb,
        lambda: _is_newer(binary, sources.iterdir()),
        make,
        lambda folder: (folder / binary.name).replace(binary),
    )
    settings.build.mkdir(parents=True, exist_ok=True)
    with _alone(settings.build / "fetch.lock"):
        if not wanted.is_there():
            _fetch(settings, [wanted], console)
    return binary


def fetches(settings: Settings) -> list[Fetch]:
    """List everything that `build/` must hold for these settings."""
    kafka_jars, flink_jars = kafka.jars(settings), flink.jars(settings)
    connector = f"flink-sql-connector-kafka-{versions()['flink']['kafka_connector']}.jar"
    prefilter = flink_jars / "stunwatch-prefilter.jar"
    wanted = [
        Fetch(
            "Apache Kafka (46 jars, 44 MB)",
            "mvn",
            100,
            kafka_jars.is_dir,
            lambda folder: maven_jars(kafka.CONFIG, folder),
            lambda folder: folder.rename(kafka_jars),
        ),
        Fetch(
            "Flink's Kafka connector (8 MB)",
            "mvn",
            20,
            (flink_jars / connector).exists,
            lambda folder: maven_jars(flink.CONFIG, folder),
            lambda folder: _replace_jars(folder, flink_jars, "flink-sql-connector-kafka-*.jar"),
        ),
        Fetch(
            "the prefilter (compiled here)",
            "mvn",
            20,
            lambda: _is_newer(
                prefilter, [PREFILTER / "pom.xml", *PREFILTER.rglob("src/**/*.java")]
            ),
            build_prefilter,
            lambda folder: _replace_jars(folder, flink_jars, prefilter.name),
        ),
    ]
    if not clickhouse.installed():
        library = clickhouse.library(settings)
        wanted.append(
            Fetch(
                "ClickHouse as a library (178 MB, unpacked 566 MB)",
                "npm",
                1000,
                library.exists,
                clickhouse_library,
                lambda folder: folder.rename(library.parent),
            )
        )
    if superset.is_wanted(settings):
        wanted.append(
            Fetch(
                "Apache Superset (158 packages, unpacked 700 MB)",
                superset.uv(settings),
                1500,
                lambda: superset.is_installed(settings),
                lambda folder: superset.install(settings, folder),
                lambda folder: superset.replace(settings, folder),
            )
        )
    return wanted


def maven_jars(component: Path, folder: Path) -> None:
    """Copy the jars of `component`/pom.xml to `folder`, if they are those of jars.sha256.

    Raises:
        UserError: Maven failed, or a jar is not the one that was pinned.
    """
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    _run(["mvn", *MAVEN, "-f", str(component / "pom.xml"), *copy, "-DincludeScope=runtime"])
    lines = (component / "jars.sha256").read_text().splitlines()
    pinned = {name: digest for digest, name in map(str.split, lines)}
    fetched = {each.name: _digest(each, "sha256").hex() for each in folder.iterdir()}
    if fetched != pinned:
        names = sorted(name for name, _ in fetched.items() ^ pinned.items())
        raise UserError(
            f"{names[0]} is not the file that {component.name}/jars.sha256 pins"
            " (if its version was changed on purpose, pin it anew)."
        )


def clickhouse_library(folder: Path) -> None:
    """Fetch the npm package of libchdb and unpack the library alone.

    Raises:
        UserError: npm failed, or the archive is not the one that was pinned.
    """
    package = clickhouse.package()
    version = versions()["clickhouse"]["package_version"]
    # In the empty folder: the checkout is no npm package.
    _run(["npm", "pack", "--silent", f"{package['name']}@{version}"], directory=folder)
    archive = next(folder.glob("*.tgz"))
    algorithm, _, expected = package["integrity"].partition("-")
    if _digest(archive, algorithm) != base64.b64decode(expected):
        raise UserError(f"{package['name']} {version} is not the archive that versions.toml pins.")
    with tarfile.open(archive) as unpacked:
        library = unpacked.getmember("package/libchdb.so")
        library.name = "libchdb.so"
        unpacked.extract(library, folder, filter="data")
    archive.unlink()


def build_prefilter(folder: Path) -> None:
    """Compile the prefilter and copy its jar to `folder`.

    Raises:
        UserError: it does not compile.
    """
    _run(["mvn", *MAVEN, "-f", str(PREFILTER / "pom.xml"), "compiler:compile", "jar:jar"])
    shutil.copy(PREFILTER / "target" / "stunwatch-prefilter.jar", folder)


def build_vcsim(folder: Path) -> None:
    """Compile the tests' vCenter into `folder`, from modules that go.sum pins.

    Raises:
        UserError: it does not compile, or a module is not the one that was pinned.
    """
    _run([GO, "build", "-trimpath", "-mod=readonly", "-o", str(folder), "."], directory=VCSIM)


def build_promtool(folder: Path) -> None:
    """Compile promtool into `folder`, from modules that go.sum pins.

    Raises:
        UserError: it does not compile, or a module is not the one that was pinned.
    """
    # Without the services of clouds that it could discover targets in.
    build = [GO, "build", "-trimpath", "-mod=readonly", "-tags", "remove_all_sd"]
    main = "github.com/prometheus/prometheus/cmd/promtool"
    _run([*build, "-ldflags", "-s -w", "-o", str(folder), main], directory=PROMTOOL)


def link_flink(settings: Settings) -> None:
    """Link Flink's own jars beside the others: one folder is the whole class path."""
    folder = flink.jars(settings)
    shipped = [
        *(flink.distribution() / "lib").glob("*.jar"),
        *(flink.distribution() / "opt").glob("flink-python-*.jar"),
    ]
    wanted = {each.name: each for each in shipped}
    for link in folder.iterdir():
        if link.is_symlink() and link.name not in wanted:
            link.unlink()
    for name, target in wanted.items():
        link = folder / name
        if not (link.is_symlink() and link.readlink() == target):
            link.unlink(missing_ok=True)
            link.symlink_to(target)


def _fetch(settings: Settings, missing: list[Fetch], console: Console) -> None:
    if any(each.tool == "mvn" for each in missing):
        checks.require_java()
    for tool in sorted({each.tool for each in missing}):
        checks.require_tool(tool)
    checks.require_disk(
        settings.build, sum(each.size_mb for each in missing), "to fetch what it runs on"
    )
    for leftover in settings.build.glob(f"{PARTIAL}*"):
        shutil.rmtree(leftover)
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:

        def run(tool: str) -> None:
            for each in missing:
                if each.tool == tool:
                    task = progress.add_task(f"fetching {each.label}", total=1)
                    folder = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=settings.build))
                    folder.chmod(0o755)
                    each.make(folder)
                    each.place(folder)
                    shutil.rmtree(folder, ignore_errors=True)
                    progress.update(task, completed=1)

        # One at a time per tool: two Mavens would share one local repository.
        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(run, tool) for tool in {each.tool for each in missing}]:
                done.result()


def _replace_jars(source: Path, target: Path, older: str) -> None:
    """Move jars to the class path, where no other version of them (a glob) may stay."""
    target.mkdir(exist_ok=True)
    fresh = {each.name for each in source.glob("*.jar")}
    for each in target.glob(older):
        if each.name not in fresh:
            each.unlink()
    for each in source.glob("*.jar"):
        each.rename(target / each.name)


def _is_newer(built: Path, sources: Iterable[Path]) -> bool:
    if not built.exists():
        return False
    return built.stat().st_mtime >= max(each.stat().st_mtime for each in sources)


def _run(command: list[str], directory: Path = ROOT) -> None:
    done = subprocess.run(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = [each for each in (done.stdout + done.stderr).splitlines() if "rror" in each]
        reason = (lines or [f"exit code {done.returncode}"])[0].strip()
        raise UserError(f"{command[0]} failed: {reason} (the whole answer: {' '.join(command)}).")


def _digest(path: Path, algorithm: str) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).digest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other `up` fetches into the same folder."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
