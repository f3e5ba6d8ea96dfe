"""A separate pipeline for simulated data, so that none of it is mixed with real logs.

`make bench` and `make score` run in one that is removed at the end. `simulate --live` and `demo`
send to the running pipeline, and refuse to if it has other logs.
"""

from __future__ import annotations

import fcntl
import random
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.incidents.wording import listed
from stunwatch.local import pipeline
from stunwatch.settings import Settings, load_settings

SIMULATED: Final = ".sim.example"
"""Suffix of the names of simulated hosts (stunwatch/simulation)."""

ASKED_S: Final = 30.0
"""Timeout for ClickHouse."""

_NAMES: Final = """
    SELECT DISTINCT if(host != '', host, vm) AS name FROM owners_seen_stored
    UNION DISTINCT
    SELECT DISTINCT host AS name FROM inventory_stored WHERE host != ''
"""


@contextmanager
def trial_pipeline(settings: Settings, console: Console) -> Iterator[Settings]:
    """Start an empty pipeline beside the user's, and remove it with its data at the end.

    Yields its settings. Raises UserError if another trial runs, or if the pipeline cannot start.
    """
    home = settings.build / "trial"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    own = settings_in(home, build=settings.build)
    with _only_one(settings.build / "trial.lock"):
        _remove(own, console)  # left by a run that was killed
        own.make_folders()
        try:
            pipeline.up(own, console, with_superset=False)
            yield own
        finally:
            _remove(own, console)


def settings_in(home: Path, **more: Any) -> Settings:
    """Return settings of a trial in a folder, on free ports. The environment is ignored."""
    names = [each.name for each in fields(Settings) if each.name.endswith("_port")]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    own: dict[str, Any] = {"home": home, "alerts": home / "alerts.yaml"}
    own |= {"superset": False, "trial": True}
    return replace(load_settings({}), **(own | ports | more))


def free_ports(count: int) -> list[int]:
    """Return free ports below the kernel's range for outgoing connections."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        with closing(socket.socket()) as each:
            if port not in found and each.connect_ex(("127.0.0.1", port)):
                found.append(port)
    return found


def require_no_other_logs(settings: Settings, made_up_hosts: Iterable[str], command: str) -> None:
    """Raise UserError if the pipeline has logs or an inventory of real hosts.

    Names below `.example` are reserved for examples (RFC 2606): no real host has one.

    Args:
        settings: The running pipeline. In a trial, all data is simulated.
        made_up_hosts: Other names of hosts and VMs that are simulated.
        command: The command that would add lines.
    """
    if settings.trial:
        return
    names = {name for (name,) in as_user(settings, "analyst", timeout_s=ASKED_S).rows(_NAMES)}
    if others := not_made_up(names, made_up_hosts):
        raise UserError(
            f"This pipeline has logs of {listed(others)}. `{command}` would mix simulated lines"
            " into them. Use another pipeline: stop this one with `stunwatch down`, set"
            " STUNWATCH_HOME to a new folder, and run `stunwatch up`. If all data of this pipeline"
            " is for trial, set STUNWATCH_TRIAL=1."
        )


def not_made_up(names: Iterable[str], made_up_hosts: Iterable[str]) -> set[str]:
    """Return the names that are not below `.example`, not a simulated host's, and not given."""
    names = {*names}
    examples = {each for each in names if each.endswith(".example")}
    short = {each.partition(".")[0] for each in examples if each.endswith(SIMULATED)}
    return names - examples - short - {*made_up_hosts}


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Another `make bench` or `make score` is running (it holds {lock}). Wait for its"
                " end."
            ) from None
        yield


def _remove(own: Settings, console: Console) -> None:
    pipeline.down(own, console)
    shutil.rmtree(own.home, ignore_errors=True)
