"""Checks of the machine before the pipeline starts. Each failure is one sentence."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from stunwatch.errors import UserError
from stunwatch.local.processes import holder_of
from stunwatch.settings import LOOPBACK, Settings, versions

TOOLS = {
    "mvn": ("Maven", "maven"),
    "npm": ("npm", "npm"),
    "go": ("Go", "the development dependencies (`uv sync` does)"),
    "openssl": ("OpenSSL", "openssl"),
    "uv": ("uv", "the extra `pipeline` again"),
}
"""The name of a command's tool and the package to install, by command."""

MIB = 1 << 20


def java() -> str:
    """Return the path of Java: of JAVA_HOME if set, otherwise the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def java_version() -> int | None:
    """Return Java's major version; None if Java is missing."""
    try:
        said = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d{1,4})', said.stderr)
    return int(found[1]) if found else None


def has_javac() -> bool:
    """True if javac is installed; a JRE lacks it."""
    return shutil.which(str(Path(java()).with_name("javac"))) is not None


def require_java() -> None:
    """Raise UserError unless Kafka and Flink support the installed Java."""
    require_java_of(java_version())


def require_java_of(version: int | None) -> None:
    """Raise UserError unless Kafka and Flink support this major version; None means no Java."""
    oldest, newest = int(versions()["java"]), int(versions()["java_newest"])
    remedy = (
        f"install a JDK of version {oldest} to {newest} (Debian 12: openjdk-17-jdk-headless,"
        " Debian 13 and Ubuntu 24.04: openjdk-21-jdk-headless)"
    )
    if version is None:
        raise UserError(f"Java is missing ({java()!r} does not run): {remedy}.")
    if version < oldest:
        raise UserError(f"Java {version} is too old: {remedy}, or let JAVA_HOME point to it.")
    if version > newest:
        raise UserError(
            f"Java {version} is too new, Flink {versions()['flink']['version']} does not start on"
            f" it: {remedy}, or let JAVA_HOME point to it."
        )


def unwritable(settings: Settings) -> tuple[Path, ...]:
    """Return the pipeline's folders that cannot be written to or created."""

    def is_writable(path: Path) -> bool:
        folder = existing(path)
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)

    return tuple(each for each in (settings.home, settings.build) if not is_writable(each))


def require_writable(folders: tuple[Path, ...]) -> None:
    """Raise UserError if `folders`, which are not writable, is not empty."""
    if folders:
        raise UserError(
            f"Cannot write to {' and '.join(map(str, folders))}: change the permissions, or name"
            " other folders with STUNWATCH_HOME and STUNWATCH_BUILD."
        )


def require_tool(command: str) -> None:
    """Raise UserError unless a command that the downloads need is on the PATH."""
    if shutil.which(command) is None:
        raise UserError(missing_tool(command))


def missing_tool(command: str) -> str:
    """Return what to install for a missing command."""
    name, package = TOOLS[Path(command).name]
    return f"{name} is missing (no {command!r} on the PATH): install {package}."


def existing(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    while not path.exists():
        path = path.parent
    return path


def free_mb(path: Path) -> int:
    """Return the free space on a path's file system, in MiB; the path need not exist yet."""
    return shutil.disk_usage(existing(path)).free // MIB


def disk_of(path: Path) -> int:
    """Return the device id of the file system that a path is or will be on."""
    return existing(path).stat().st_dev


def require_disk(path: Path, needed_mb: int, purpose: str) -> None:
    """Raise UserError unless this many MiB are free where `path` is or will be."""
    require_free(path, free_mb(path), needed_mb, purpose)


def require_free(path: Path, free: int, needed_mb: int, purpose: str) -> None:
    """Raise UserError unless `free` MiB, the free space at `path`, are enough."""
    if free < needed_mb:
        raise UserError(
            f"The file system of {path} has {free} MiB free; {needed_mb} are needed {purpose}."
            " Free some space."
        )


def is_free(port: int) -> bool:
    """True if a process can listen on this port of the loopback interface."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def busy_ports(settings: Settings) -> list[str]:
    """Return one sentence for every port of the settings that another program uses."""
    return [
        f"Port {port}, which {owner} needs, is in use by {holder_of(port) or 'another program'}."
        f" Stop it, or choose another port with {name}."
        for owner, name, port in settings.ports()
        if not is_free(port)
    ]


def require_ports(settings: Settings) -> None:
    """Raise UserError if another program uses one of the ports."""
    if busy := busy_ports(settings):
        raise UserError(busy[0])
