"""Runs supervisord, which starts, restarts and stops the components with their children."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

from stunwatch import access
from stunwatch.errors import UserError
from stunwatch.local import collectors
from stunwatch.local.component import Component
from stunwatch.local.passwords import without_secrets
from stunwatch.local.processes import MARK, is_alive
from stunwatch.settings import ROOT, Settings

SOCKET_PATH_BYTES = 100
"""Maximum length of a socket's path. Linux allows 108, and supervisord adds a suffix."""

CONFIGURED_BY = [
    ROOT / "versions.toml",
    ROOT / "infra/kafka/server.properties",
    ROOT / "infra/kafka/secure.properties",
    ROOT / "infra/clickhouse/config.xml",
    ROOT / "infra/clickhouse/users.xml",
    ROOT / "infra/flink/config.yaml",
    ROOT / "infra/flink/secure.yaml",
    *sorted((ROOT / "infra/superset").glob("*.py")),
]
"""If one of these files changes, `up` restarts a running pipeline."""


def configuration(settings: Settings, components: Sequence[Component]) -> str:
    """Render supervisord's configuration. supervisord listens only on a Unix socket."""
    fingerprint = hashlib.sha256(b"\0".join(path.read_bytes() for path in CONFIGURED_BY))
    told = access.environment(settings) | collectors.environment(settings) | {MARK: "supervisord"}
    environment = ",".join(f"{name}={_quoted(value)}" for name, value in told.items())
    sections = [
        f"; made by `stunwatch up` from {fingerprint.hexdigest()[:16]}",
        "[unix_http_server]",
        f"file = {_escaped(_socket(settings))}",
        "chmod = 0700",
        "",
        "[supervisord]",
        f"logfile = {_escaped(settings.logs / 'supervisord.log')}",
        "logfile_maxbytes = 5MB",
        "logfile_backups = 1",
        f"pidfile = {_escaped(settings.run / 'supervisord.pid')}",
        f"childlogdir = {_escaped(settings.logs)}",
        f"directory = {_escaped(settings.home)}",
        "umask = 077",
        f"environment = {environment}",
        "",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface",
    ]
    for each in components:
        command = shlex.join([sys.executable, "-m", "stunwatch.local.launch", each.name])
        sections += [
            "",
            f"[program:{each.name}]",
            f"command = {_escaped(command)}",
            "autostart = false",
            "autorestart = true",
            "startsecs = 5",
            # Never give up: a full disk may be freed at any time.
            "startretries = 1000000000",
            f"stopwaitsecs = {each.stop_seconds}",
            "stopasgroup = true",
            "killasgroup = true",
            "redirect_stderr = true",
            f"stdout_logfile = {_escaped(log_of(settings, each.name))}",
            "stdout_logfile_maxbytes = 20MB",
            "stdout_logfile_backups = 2",
        ]
    return "\n".join(sections) + "\n"


def configuration_path(settings: Settings) -> Path:
    """Return the path of the running supervisord's configuration."""
    return settings.run / "supervisord.conf"


def log_of(settings: Settings, name: str) -> Path:
    """Return the path of the log of a component, or of supervisord itself."""
    return settings.logs / f"{name}.log"


class Supervisor:
    """A client of the running supervisord, over its socket. Use one per thread."""

    def __init__(self, settings: Settings) -> None:
        from supervisor.xmlrpc import SupervisorTransport  # noqa: PLC0415 (slow to import)

        transport = SupervisorTransport(None, None, f"unix://{_socket(settings)}")
        self._settings = settings
        self._call: Any = xmlrpc.client.ServerProxy("http://localhost", transport).supervisor

    def states(self) -> dict[str, dict[str, Any]]:
        """Return, by component: `statename`, `pid`, `start` and `now` (epoch seconds), and more."""
        return {each["name"]: each for each in self._call.getAllProcessInfo()}

    def start(self, name: str) -> None:
        """Start a component immediately, even if it waits for its next attempt."""
        if self.states()[name]["statename"] == "BACKOFF":
            self.stop(name)
        self._unless_already(self._call.startProcess, name, False)

    def stop(self, name: str) -> None:
        """Stop a component with its children; return when they have ended."""
        self._unless_already(self._call.stopProcess, name, True)

    def restart(self, name: str) -> None:
        """Stop a component with its children, and start it again."""
        self.stop(name)
        self.start(name)

    def shut_down(self) -> None:
        """Stop supervisord and everything that it runs; return when it has ended."""
        pid = self._call.getPID()
        self._call.shutdown()
        while is_alive(pid):
            time.sleep(0.05)

    def _unless_already(self, call: Any, name: str, wait: bool) -> None:
        from supervisor.xmlrpc import Faults  # noqa: PLC0415 (slow to import)

        try:
            call(name, wait)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode not in (Faults.ALREADY_STARTED, Faults.NOT_RUNNING):
                raise


def connect(settings: Settings) -> Supervisor | None:
    """Return the supervisor that runs in `settings.home`; None if there is none."""
    if not _socket(settings).exists():
        return None
    supervisor = Supervisor(settings)
    try:
        supervisor.states()
    except (OSError, xmlrpc.client.Error, ExpatError):
        return None
    return supervisor


def start(settings: Settings, text: str) -> Supervisor:
    """Start supervisord with a configuration.

    Raises:
        UserError: it does not start, or the path of its socket is too long.
    """
    length = len(os.fsencode(_socket(settings)))
    if length > SOCKET_PATH_BYTES:
        raise UserError(
            f"The path {settings.home} is {length - SOCKET_PATH_BYTES} bytes too long for a"
            " Unix socket. Set STUNWATCH_HOME to a shorter path."
        )
    path = configuration_path(settings)
    path.write_text(text)
    _socket(settings).unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "supervisor.supervisord", "-c", str(path)],
        env={**without_secrets(os.environ), **settings.environment(), MARK: "supervisord"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and done.returncode == 0:
        if supervisor := connect(settings):
            return supervisor
        time.sleep(0.05)
    said = (done.stderr or done.stdout).strip().splitlines() or ["it does not answer"]
    raise UserError(f"The supervisor did not start: {said[-1]}.")


def _socket(settings: Settings) -> Path:
    return settings.run / "supervisor.sock"


def _escaped(value: object) -> str:
    """Escape percent signs, which supervisord would expand."""
    return str(value).replace("%", "%%")


def _quoted(value: str) -> str:
    return '"' + _escaped(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
