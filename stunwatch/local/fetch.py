"""Downloads the pipeline's software once, in pinned and verified versions.

Everything is installed in `build/` with the ordinary client of its package manager. Each download
is prepared in a temporary folder and moved when it is complete, so a download that was killed
leaves nothing that looks complete.
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from stunwatch.errors import UserError
from stunwatch.local import checks, clickhouse, flink, kafka, superset
from stunwatch.settings import ROOT, Settings, versions

PREFILTER = ROOT / "flink-jobs" / "functions"
VCSIM = ROOT / "tools" / "vcsim"
PROMTOOL = ROOT / "tools" / "promtool"
GO = str(Path(sys.executable).with_name("go"))
GO_BUILD = (GO, "build", "-p=1", "-trimpath", "-mod=readonly")
"""One compiler at a time, because a pipeline that starts meanwhile needs a core, too."""
GO_BUILD_QUICKLY = (*GO_BUILD, "-gcflags=all=-N -l")
"""Without optimisations, which take a third of the time: for tools that run for seconds."""
PARTIAL = ".partial-"
MAVEN = ("mvn", "--batch-mode", "--quiet", "--no-transfer-progress", "--strict-checksums")


@dataclass(frozen=True)
class Fetch:
    """A download or build: `make` fills an empty folder, `place` moves the result to its location.

    `size_mb` is the disk space that it needs meanwhile, in MiB.
    """

    label: str
    tool: str
    size_mb: int
    is_there: Callable[[], bool]
    make: Callable[[Path], None]
    place: Callable[[Path], object]


def ensure(settings: Settings, console: Console, wanted: Sequence[Fetch] | None = None) -> None:
    """Download and build what is missing, with progress; fast if nothing is.

    Args:
        wanted: What to fetch; everything if it is None.

    Raises:
        UserError: a tool is missing, the disk is too small, a download failed, or its checksum is
            wrong.
    """
    settings.build.mkdir(parents=True, exist_ok=True)
    wanted = fetches(settings) if wanted is None else wanted
    if missing := [each for each in wanted if not each.is_there()]:
        _fetch(settings, missing, console)
    with _alone(settings.build / "fetch.lock"):
        link_flink(settings)


def ensure_vcsim(settings: Settings, console: Console) -> Path:
    """Build the vCenter simulator of the tests if it is missing or outdated; return its path.

    Raises:
        UserError: Go is missing, the build fails, or a module's checksum is wrong.
    """
    label = "the tests' vCenter (govmomi's simulator, compiled here)"
    return _ensure_compiled(settings, console, "vcsim", label, 500, VCSIM, build_vcsim)


def ensure_promtool(settings: Settings, console: Console) -> Path:
    """Build promtool, which checks Prometheus rules, if missing or outdated; return its path.

    The build takes minutes.

    Raises:
        UserError: Go is missing, the build fails, or a module's checksum is wrong.
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
    if not wanted.is_there():
        _fetch(settings, [wanted], console)
    return binary


def fetches(settings: Settings) -> list[Fetch]:
    """Return everything that these settings need in `build/`."""
    return [*of_detection(settings), *of_superset(settings)]


def of_detection(settings: Settings) -> list[Fetch]:
    """Return what detection and storage need: everything but Superset."""
    kafka_jars, flink_jars = kafka.jars(settings), flink.jars(settings)
    connector = f"flink-sql-connector-kafka-{versions()['flink']['kafka_connector']}.jar"
    prefilter = f"stunwatch-prefilter-{_prefilter_digest()}.jar"
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
            (flink_jars / prefilter).exists,
            lambda folder: build_prefilter(folder, prefilter),
            lambda folder: _replace_jars(folder, flink_jars, "stunwatch-prefilter*.jar"),
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
    return wanted


def of_superset(settings: Settings) -> list[Fetch]:
    """Return Superset's download; empty if Superset is disabled."""
    if not superset.is_wanted(settings):
        return []
    return [
        Fetch(
            "Apache Superset (158 packages, unpacked 700 MB)",
            superset.uv(),
            1500,
            lambda: superset.is_installed(settings),
            lambda folder: superset.install(settings, folder),
            lambda folder: superset.replace(settings, folder),
        )
    ]


def maven_jars(component: Path, folder: Path) -> None:
    """Copy the jars of `component`/pom.xml to `folder` and verify them with jars.sha256.

    Raises:
        UserError: Maven failed, or a jar's checksum is wrong.
    """
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    _run([*MAVEN, "-f", str(component / "pom.xml"), *copy, "-DincludeScope=runtime"])
    lines = (component / "jars.sha256").read_text().splitlines()
    pinned = {name: digest for digest, name in map(str.split, lines)}
    fetched = {each.name: _digest(each, "sha256").hex() for each in folder.iterdir()}
    if fetched != pinned:
        names = sorted(name for name, _ in fetched.items() ^ pinned.items())
        raise UserError(
            f"The download {names[0]} does not match its hash in {component.name}/jars.sha256."
            " Try again; if you changed its version, update the hash."
        )


def clickhouse_library(folder: Path) -> None:
    """Download the npm package of libchdb and unpack only the library.

    Raises:
        UserError: npm failed, or the archive's checksum is wrong.
    """
    package = clickhouse.package()
    version = versions()["clickhouse"]["package_version"]
    # npm must run in the empty folder, because the checkout is not an npm package.
    _run(["npm", "pack", "--silent", f"{package['name']}@{version}"], directory=folder)
    archive = next(folder.glob("*.tgz"))
    algorithm, _, expected = package["integrity"].partition("-")
    if _digest(archive, algorithm) != base64.b64decode(expected):
        raise UserError(
            f"The download {package['name']} {version} does not match its hash in versions.toml."
            " Try again."
        )
    with tarfile.open(archive) as unpacked:
        library = unpacked.getmember("package/libchdb.so")
        library.name = "libchdb.so"
        # Python 3.11.2, which Debian 12 has, supports no filters and ignores this.
        unpacked.extraction_filter = getattr(tarfile, "data_filter", None)
        unpacked.extract(library, folder)
    archive.unlink()


def build_prefilter(folder: Path, jar: str) -> None:
    """Compile the prefilter into `folder` under the name `jar`.

    Maven writes beside the sources, and a wheel's sources may belong to another user, so they are
    copied.

    Raises:
        UserError: the build fails.
    """
    sources = folder / "sources"
    shutil.copytree(PREFILTER, sources, ignore=shutil.ignore_patterns("target"))
    goals = ["resources:resources", "compiler:compile", "jar:jar"]
    [python] = (flink.distribution() / "opt").glob("flink-python-*.jar")
    _run([*MAVEN, "-f", str(sources / "pom.xml"), f"-Dflink.python={python}", *goals])
    (sources / "target" / "stunwatch-prefilter.jar").rename(folder / jar)
    shutil.rmtree(sources)


def _prefilter_digest() -> str:
    """Return a digest of the prefilter's sources; their file times differ between installations."""
    content = hashlib.sha256()
    sources = sorted(path for path in PREFILTER.glob("src/**/*") if path.is_file())
    for path in [PREFILTER / "pom.xml", *sources]:
        content.update(f"{path.relative_to(PREFILTER)}\0".encode() + path.read_bytes())
    return content.hexdigest()[:16]


def build_vcsim(folder: Path) -> None:
    """Compile the tests' vCenter simulator into `folder`, from modules that go.sum pins.

    Raises:
        UserError: the build fails, or a module's checksum is wrong.
    """
    _run([*GO_BUILD, "-o", str(folder), "."], directory=VCSIM)


def build_promtool(folder: Path) -> None:
    """Compile promtool into `folder`, from modules that go.sum pins.

    Raises:
        UserError: the build fails, or a module's checksum is wrong.
    """
    # remove_all_sd leaves out the discovery of targets in clouds.
    build = [*GO_BUILD_QUICKLY, "-tags", "remove_all_sd"]
    main = "github.com/prometheus/prometheus/cmd/promtool"
    _run([*build, "-ldflags", "-s -w", "-o", str(folder), main], directory=PROMTOOL)


def link_flink(settings: Settings) -> None:
    """Link Flink's own jars into the folder of the others: it is the whole class path."""
    folder = flink.jars(settings)
    folder.mkdir(exist_ok=True)
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
    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:

        def run(tool: str) -> None:
            partial = f"{PARTIAL}{Path(tool).name}-"
            with _alone(settings.build / f"fetch-{Path(tool).name}.lock"):
                for leftover in settings.build.glob(f"{partial}*"):
                    shutil.rmtree(leftover)
                # Another command may have downloaded it in the meantime.
                for each in (one for one in missing if one.tool == tool and not one.is_there()):
                    task = progress.add_task(f"fetching {each.label}", total=1)
                    folder = Path(tempfile.mkdtemp(prefix=partial, dir=settings.build))
                    folder.chmod(0o755)
                    each.make(folder)
                    each.place(folder)
                    shutil.rmtree(folder, ignore_errors=True)
                    progress.update(task, completed=1)

        # One download at a time per tool, because two Mavens would share a local repository.
        with ThreadPoolExecutor() as pool:
            for done in [pool.submit(run, tool) for tool in {each.tool for each in missing}]:
                done.result()


def _replace_jars(source: Path, target: Path, older: str) -> None:
    """Move jars to the class path and remove other versions of them (a glob)."""
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
    # Maven runs for seconds only. Without the optimising compiler it needs half the CPU time.
    short_lived = {"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    done = subprocess.run(
        command,
        cwd=directory,
        env=short_lived | os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = [each for each in (done.stdout + done.stderr).splitlines() if "rror" in each]
        reason = (lines or [f"exit code {done.returncode}"])[0].strip()
        raise UserError(
            f"{command[0]} failed: {reason}. For the whole output, run: {' '.join(command)}"
        )


def _digest(path: Path, algorithm: str) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).digest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold a file lock, so that no other command works on the same download."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
