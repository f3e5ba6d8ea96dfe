"""What must hold on a machine before the pipeline starts; each failure is one sentence."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path

from stunwatch.errors import UserError
from stunwatch.runtime.processes import holder_of
from stunwatch.settings import LOOPBACK, Settings, versions

TOOLS = {
    "mvn": ("Maven", "maven"),
    "npm": ("npm", "npm"),
    "go": ("Go", "the development dependencies (`uv sync` does)"),
    "openssl": ("OpenSSL", "openssl"),
    "uv": ("uv", "it with pip, or call `make up`"),
}
"""Command → its name, and what to install for it."""

MIB = 1 << 20


def java() -> str:
    """Say which Java runs: the one of JAVA_HOME, otherwise the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def java_version() -> int | None:
    """Ask Java for its major version; None where there is no Java."""
    try:
        said = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr)
    return int(found[1]) if found else None


def require_java() -> None:
    """Raise UserError unless a new enough Java is there."""
    needed = int(versions()["java"])
    remedy = f"install Java {needed} (Debian: openjdk-{needed}-jdk-headless)"
    version = java_version()
    if version is None:
        raise UserError(f"Java is missing ({java()!r} does not run): {remedy}.")
    if version < needed:
        raise UserError(f"Java {version} is too old: {remedy}, or let JAVA_HOME point to it.")


def require_tool(command: str) -> None:
    """Raise UserError unless a command that downloads need is on the PATH."""
    if shutil.which(command) is None:
        name, package = TOOLS[Path(command).name]
        raise UserError(f"{name} is missing (no {command!r} on the PATH): install {package}.")


def free_mb(path: Path) -> int:
    """Return what is left on a path's file system, in MiB; the path need not exist yet."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free // MIB


def require_disk(path: Path, needed_mb: int, purpose: str) -> None:
    """Raise UserError unless so many MiB are free where `path` is or will be."""
    free = free_mb(path)
    if free < needed_mb:
        raise UserError(
            f"The file system of {path} has {free} MiB left, {needed_mb} are needed {purpose}:"
            " free some space."
        )


def is_free(port: int) -> bool:
    """Tell whether a port of the loopback interface can be listened on."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def busy_ports(settings: Settings) -> list[str]:
    """One sentence for every port of the settings that something else has."""
    return [
        f"Port {port}, which {owner} needs, is taken by {holder_of(port) or 'another program'}:"
        f" end that, or choose another port with {name}."
        for owner, name, port in settings.ports()
        if not is_free(port)
    ]


def require_ports(settings: Settings) -> None:
    """Raise UserError if something else has one of the ports."""
    if busy := busy_ports(settings):
        raise UserError(busy[0])
