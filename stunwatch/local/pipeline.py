"""Starts the components, each after those it needs are healthy, and stops them in reverse order."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from stunwatch import access, dashboards
from stunwatch.errors import UserError
from stunwatch.local import (
    checks,
    clickhouse,
    collectors,
    diagnosis,
    fetch,
    flink,
    intake,
    job_code,
    kafka,
    keeper,
    principals,
    readers,
    superset,
    supervision,
)
from stunwatch.local.components import COMPONENTS
from stunwatch.local.processes import end, processes
from stunwatch.local.supervision import Supervisor
from stunwatch.settings import Settings

STILL_SECONDS = 360
"""If no component's state changes for this long, waiting longer does not help."""

READY_SECONDS = 1200
"""Maximum time for a start, even on a slow or busy machine."""

STARTS = 3
"""A component that was started more often than this without becoming healthy has failed."""


def up(
    settings: Settings,
    console: Console,
    *,
    with_superset: bool = True,
    with_collectors: bool = False,
    is_secured: bool = False,
    waits_for_superset: bool = True,
) -> None:
    """Download what is missing, start what is not running, and return when everything is healthy.

    Args:
        waits_for_superset: If false, Superset is not downloaded, starts only if it is installed,
            and may not be healthy yet on return.

    Raises:
        UserError: a requirement is missing on this machine, or a component does not become healthy.
    """
    checks.require_writable(checks.unwritable(settings))
    settings.make_folders()
    if with_collectors:
        collectors.require_vcenter(settings)
    with alone(settings):
        _set(collectors.switch(settings), with_collectors)
        _set(superset.without(settings), not with_superset)
        _set(access.switch(settings), is_secured)
        if access.is_secured(settings):
            principals.make_what_is_missing(settings)
        supervisor = supervision.connect(settings)
        text = supervision.configuration(settings, COMPONENTS)
        has_changed = (
            supervisor is not None and supervision.configuration_path(settings).read_text() != text
        )
        if supervisor is None or has_changed:
            # Before any download or stop. Leftovers of a killed supervisor may occupy ports.
            if supervisor is None:
                _sweep(settings)
            diagnosis.require(settings)
        wanted = fetch.fetches if waits_for_superset else fetch.of_detection
        fetch.ensure(settings, console, wanted(settings))
        if supervisor and has_changed:
            console.print("The settings have changed. Restarting all components.")
            _stop(settings, supervisor, console)
            supervisor = None
        if supervisor and (reason := intake.why_intake_is_stopped(settings)):
            raise UserError(reason)
        if supervisor is None:
            _sweep(settings)
            checks.require_ports(settings)
            flink.clear_scratch(settings)
            job_code.take(settings, on_trial=False)
            for stale in (intake.flag(settings), keeper.alive(settings), keeper.rates(settings)):
                stale.unlink(missing_ok=True)
            supervisor = supervision.start(settings, text)
        _start(settings, supervisor, console, waits_for_superset)


def _set(switch: Path, is_on: bool) -> None:
    """Set or clear a flag. A flag is set if its file exists."""
    if is_on:
        switch.touch()
    else:
        switch.unlink(missing_ok=True)


def down(settings: Settings, console: Console) -> bool:
    """Stop everything; return whether anything was running."""
    if not settings.run.exists():
        return False
    with alone(settings):
        supervisor = supervision.connect(settings)
        if supervisor:
            _stop(settings, supervisor, console)
        return _sweep(settings) or supervisor is not None


def _start(
    settings: Settings, supervisor: Supervisor, console: Console, waits_for_superset: bool
) -> None:
    began = time.monotonic()
    may_be_late = set() if waits_for_superset else {superset.COMPONENT.name}
    is_left_out = may_be_late if not superset.is_installed(settings) else set()
    wanted = [
        each for each in COMPONENTS if each.is_wanted(settings) and each.name not in is_left_out
    ]
    steps: list[tuple[set[str], Callable[[Settings], object]]] = [
        ({"kafka"}, kafka.apply_principals),
        ({"kafka"}, kafka.apply_topics),
        ({"kafka", "clickhouse"}, readers.read_all_into_new_tables),
        ({"kafka", "clickhouse"}, clickhouse.apply_sql),
        ({"kafka", "clickhouse", "superset"}, dashboards.apply_if_changed),
    ]
    states = supervisor.states()
    started = {name for name, each in states.items() if each["statename"] == "RUNNING"}
    for unwanted in started - {each.name for each in wanted}:
        supervisor.stop(unwanted)
    already = set(started)
    ready: set[str] = set()
    unhealthy_reasons: dict[str, str] = {}
    pids: dict[str, set[int]] = {each.name: set() for each in COMPONENTS}
    known_before: tuple[Any, ...] = ()
    changed = began
    with console.status("starting") as status:
        while True:
            for each in wanted:
                if each.name in ready or not ready.issuperset(each.after):
                    continue
                if each.name not in started:
                    supervisor.start(each.name)
                    started.add(each.name)
                if unhealthy_reason := each.unhealthy_reason(settings):
                    unhealthy_reasons[each.name] = unhealthy_reason
                    continue
                ready.add(each.name)
                for step in [one for one in steps if ready.issuperset(one[0])]:
                    step[1](settings)
                    steps.remove(step)
                if each.name not in already:
                    seconds = time.monotonic() - began
                    said = f" {each.name:<18}{seconds:6.1f} s"
                    console.print(Text.assemble(("✓", "green"), said))
            waiting = [each.name for each in wanted if each.name not in ready | may_be_late]
            if not waiting:
                return
            status.update(f"waiting for {', '.join(waiting)}")
            for name, state in supervisor.states().items():
                pids[name].add(state["pid"])
            failing = [name for name in waiting if len(pids[name] - {0}) > STARTS]
            now = time.monotonic()
            # A component that may be late counts too: its step can take minutes, without a check.
            if (known := (*sorted(ready), *sorted(unhealthy_reasons.items()))) != known_before:
                known_before, changed = known, now
            if failing or now - changed > STILL_SECONDS or now - began > READY_SECONDS:
                name = (failing or waiting)[0]
                raise UserError(
                    f"{name} does not start:"
                    f" {unhealthy_reasons.get(name, 'it waits for another component')}."
                    f" `stunwatch logs {name}` shows why."
                )
            time.sleep(0.1)


def _stop(settings: Settings, supervisor: Supervisor, console: Console) -> None:
    with console.status("stopping") as status:
        for each in reversed(COMPONENTS):
            status.update(f"stopping {each.name}")
            supervisor.stop(each.name)
        supervisor.shut_down()


def _sweep(settings: Settings) -> bool:
    """End processes that a killed supervisor left running; return whether there were any."""
    leftover = list(processes(settings))
    end(leftover, patience_seconds=10.0)
    return bool(leftover)


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Serialise `up`, `down`, `restore` and `upgrade` of one pipeline."""
    descriptor = os.open(settings.run / "up.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
