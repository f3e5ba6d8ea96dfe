"""Apache Superset: an environment and a lock of its own, served by gunicorn."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from stunwatch.errors import UserError
from stunwatch.runtime import clickhouse
from stunwatch.runtime.component import Component, Launch, http_ailment
from stunwatch.runtime.passwords import made_once
from stunwatch.settings import ROOT, Settings, versions

CONFIG = ROOT / "infra" / "superset"
ADMIN = "admin"


def place(settings: Settings) -> Path:
    """Where Superset is installed: its environment, and the metadata of a fresh one."""
    return settings.build / f"superset-{versions()['superset']['version']}"


def uv(settings: Settings) -> str:
    """Find uv: the one that the Makefile installs, else any."""
    own = settings.build / "uv" / "bin" / "uv"
    return str(own) if own.exists() else "uv"


def is_installed(settings: Settings) -> bool:
    """Tell whether the installation is that of the lock file."""
    made_from = place(settings) / "lock.sha256"
    return made_from.exists() and made_from.read_text() == _lock_digest()


def install(settings: Settings, folder: Path) -> None:
    """Make the environment from the lock, and the metadata of a Superset nobody has used yet.

    Raises:
        UserError: a download failed, or Superset cannot make its metadata.
    """
    sync = [uv(settings), "sync", "--frozen", "--quiet", "--compile-bytecode", "--project"]
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
    """Put what `install` made where it belongs, instead of what is there."""
    shutil.rmtree(place(settings), ignore_errors=True)
    folder.rename(place(settings))


def without(settings: Settings) -> Path:
    """The file that stands there while the pipeline runs without Superset."""
    return settings.home / "without_superset"


def is_wanted(settings: Settings) -> bool:
    """Tell whether `up` was not asked to leave it out."""
    return settings.superset and not without(settings).exists()


def address(settings: Settings) -> str:
    """Where a browser finds it."""
    return f"http://{settings.superset_host}:{settings.superset_port}"


def how_to_enter(settings: Settings) -> str:
    """Say where the dashboards are, and where the password stands."""
    return (
        f"Dashboards: {address(settings)}/superset/dashboard/fleet_now/\n"
        f"  user {ADMIN}, password in {password_file(settings)}"
        f" (the key of its sessions beside it, {secret_key_file(settings).name})"
    )


def secret_key_file(settings: Settings) -> Path:
    """What signs sessions, mode 600."""
    return settings.secrets / "superset_secret_key"


def password_file(settings: Settings) -> Path:
    """The administrator's password, mode 600."""
    return settings.secrets / "superset_admin"


def admin_password(settings: Settings) -> str:
    """Return the administrator's password; the environment's where it has one."""
    given = os.environ.get("STUNWATCH_SUPERSET_ADMIN_PASSWORD")
    return given or made_once(password_file(settings))


def launch(settings: Settings) -> Launch:
    """Give a new home its metadata; serve."""
    home = settings.home / "superset"
    home.mkdir(exist_ok=True, mode=0o700)
    metadata = home / "metadata.db"
    if not metadata.exists():
        draft = metadata.with_suffix(f".{os.getpid()}")
        shutil.copy(place(settings) / "metadata.db", draft)
        draft.chmod(0o600)
        draft.rename(metadata)
    secret_key = os.environ.get("STUNWATCH_SUPERSET_SECRET_KEY")
    python = place(settings) / "environment" / "bin" / "python"
    command = [str(python), "-m", "gunicorn", "--config", str(CONFIG / "gunicorn.conf.py")]
    return Launch(
        [*command, "--chdir", str(CONFIG), "serve:app"],
        _environment()
        | {
            "STUNWATCH_SUPERSET_SECRET_KEY": secret_key or made_once(secret_key_file(settings)),
            "STUNWATCH_SUPERSET_ADMIN_PASSWORD": admin_password(settings),
            "STUNWATCH_CLICKHOUSE_READER_PASSWORD": clickhouse.password(settings, "reader"),
        },
    )


def ailment(settings: Settings) -> str | None:
    """Ask for its health; return why it does not answer, None if it does."""
    return http_ailment(settings.superset_host, settings.superset_port, "/health", 5)


def _environment() -> dict[str, str]:
    # It reports its use to its makers unless told otherwise.
    return {"PYTHONPATH": str(CONFIG), "SCARF_ANALYTICS": "false", "PYTHONWARNINGS": "ignore"}


def _lock_digest() -> str:
    return hashlib.sha256((CONFIG / "uv.lock").read_bytes()).hexdigest()


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
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
        raise UserError(f"Superset cannot be installed: {reason} ({' '.join(command)}).")


COMPONENT = Component(
    "superset",
    after=("clickhouse",),
    launch=launch,
    ailment=ailment,
    stop_seconds=10,
    is_wanted=is_wanted,
)
