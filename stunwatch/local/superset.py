"""Apache Superset in its own environment with its own lock file, served by gunicorn."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from stunwatch.errors import UserError
from stunwatch.local.component import Component, Launch, http_unhealthy_reason
from stunwatch.local.passwords import made_once
from stunwatch.settings import ROOT, Settings, versions

CONFIG = ROOT / "infra" / "superset"
ADMIN = "admin"


def place(settings: Settings) -> Path:
    """Return the installation's folder: an environment, and the metadata of a fresh Superset."""
    return settings.build / f"superset-{versions()['superset']['version']}"


def uv() -> str:
    """Return the path of uv, which the extra `pipeline` installs."""
    return str(Path(sys.executable).with_name("uv"))


def is_installed(settings: Settings) -> bool:
    """True if the installation matches the lock file."""
    made_from = place(settings) / "lock.sha256"
    return made_from.exists() and made_from.read_text() == _lock_digest()


def install(settings: Settings, folder: Path) -> None:
    """Create the environment from the lock file, and the metadata of a fresh Superset.

    Raises:
        UserError: a download failed, or Superset cannot create its metadata.
    """
    # Do not compile byte code: that takes 20 s, and most modules are never imported.
    sync = [uv(), "sync", "--frozen", "--quiet", "--project"]
    _run([*sync, str(CONFIG)], {"UV_PROJECT_ENVIRONMENT": str(folder / "environment")})
    python = folder / "environment" / "bin" / "python"
    unused = {
        "STUNWATCH_HOME": str(folder),
        "STUNWATCH_SUPERSET_METADATA": "",
        "STUNWATCH_SUPERSET_SECRET_KEY": "the metadata made here holds no secret",
    }
    (folder / "superset").mkdir()
    _run([str(python), str(CONFIG / "provision.py")], _environment() | unused)
    (folder / "superset" / "metadata.db").rename(folder / "metadata.db")
    shutil.rmtree(folder / "superset")
    (folder / "lock.sha256").write_text(_lock_digest())


def replace(settings: Settings, folder: Path) -> None:
    """Replace the installation with the result of `install`."""
    shutil.rmtree(place(settings), ignore_errors=True)
    folder.rename(place(settings))


def without(settings: Settings) -> Path:
    """Return the flag file that exists while the pipeline runs without Superset."""
    return settings.home / "without_superset"


def is_wanted(settings: Settings) -> bool:
    """True unless the settings or `up --no-superset` disable it."""
    return settings.superset and not without(settings).exists()


def address(settings: Settings) -> str:
    """Return Superset's URL."""
    return f"http://{settings.superset_host}:{settings.superset_port}"


def wall(settings: Settings) -> str:
    """Return the URL of the dashboard for a wall screen, without Superset's menu.

    Modes 2 and 3 also hide the header, and with it the refresh.
    """
    return f"{address(settings)}/superset/dashboard/wall/?standalone=1"


def how_to_enter(settings: Settings) -> str:
    """Return the URLs of the dashboards, and the file with the password."""
    return (
        f"Dashboards: {address(settings)}/superset/dashboard/last_night/\n"
        f"Wall screen: {wall(settings)}\n"
        f"  user {ADMIN}, password in {password_file(settings)}"
        f" (session key: {secret_key_file(settings).name} in the same folder)"
    )


def secret_key_file(settings: Settings) -> Path:
    """Return the file with the key that signs sessions; it has mode 600."""
    return settings.secrets / "superset_secret_key"


def password_file(settings: Settings) -> Path:
    """Return the file with the administrator's password; it has mode 600."""
    return settings.secrets / "superset_admin"


def admin_password(settings: Settings) -> str:
    """Return the administrator's password; the one in the environment takes precedence."""
    given = os.environ.get("STUNWATCH_SUPERSET_ADMIN_PASSWORD")
    return given or made_once(password_file(settings))


def launch(settings: Settings) -> Launch:
    """Copy the metadata into a new home, and return the command that serves Superset."""
    home = settings.home / "superset"
    home.mkdir(exist_ok=True, mode=0o700)
    metadata = home / "metadata.db"
    if not metadata.exists():
        draft = metadata.with_suffix(f".{os.getpid()}")
        shutil.copy(place(settings) / "metadata.db", draft)
        draft.chmod(0o600)
        draft.rename(metadata)
    secrets = {
        "STUNWATCH_SUPERSET_SECRET_KEY": secret_key_file(settings),
        "STUNWATCH_SUPERSET_ADMIN_PASSWORD": password_file(settings),
        "STUNWATCH_CLICKHOUSE_READER_PASSWORD": settings.secrets / "reader",
    }
    for path in secrets.values():
        made_once(path)
    python = place(settings) / "environment" / "bin" / "python"
    command = [str(python), "-m", "gunicorn", "--config", str(CONFIG / "gunicorn.conf.py")]
    return Launch(
        [*command, "--chdir", str(CONFIG), "serve:app"],
        _environment() | {f"{name}_FILE": str(path) for name, path in secrets.items()},
        # Detection starts at the same time and must not wait for charts.
        niceness=5,
    )


def unhealthy_reason(settings: Settings) -> str | None:
    """Request Superset's health page; return the problem, None if it answers."""
    return http_unhealthy_reason(settings.superset_host, settings.superset_port, "/health", 5)


def _environment() -> dict[str, str]:
    # Superset sends usage statistics to its vendor unless disabled. Its "now" is in the machine's
    # time zone, but all times of the data are in UTC.
    return {
        "PYTHONPATH": str(CONFIG),
        "SCARF_ANALYTICS": "false",
        "PYTHONWARNINGS": "ignore",
        "TZ": "UTC",
    }


def _lock_digest() -> str:
    return hashlib.sha256((CONFIG / "uv.lock").read_bytes()).hexdigest()


def _run(command: list[str], environment: dict[str, str]) -> None:
    # At low priority, because detection may be starting at the same time.
    done = subprocess.run(
        ["nice", "-n", "10", *command],
        cwd=ROOT,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        reason = lines[-1] if lines else f"exit code {done.returncode}"
        raise UserError(f"Cannot install Superset: {reason}. The command was: {' '.join(command)}")


COMPONENT = Component(
    "superset",
    after=("clickhouse",),
    launch=launch,
    unhealthy_reason=unhealthy_reason,
    stop_seconds=10,
    is_wanted=is_wanted,
)
