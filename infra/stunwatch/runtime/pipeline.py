"""Up and down: the components started in order of health, and stopped in the reverse order."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from stunwatch import access, dashboards, schema
from stunwatch.errors import UserError
from stunwatch.runtime import (
    checks,
    clickhouse,
    collectors,
    fetch,
    flink,
    intake,
    job_code,
    kafka,
    keeper,
    principals,
    superset,
    supervision,
)
from stunwatch.runtime.components import COMPONENTS
from stunwatch.runtime.processes import end, processes
from stunwatch.runtime.supervision import Supervisor
from stunwatch.settings import Settings

READY_SECONDS = 180
"""A component that is not healthy by then has a reason that waiting does not remove."""

STARTS = 3
"""A component that was started more often than this and is still not healthy never will be."""


def up(
    settings: Settings,
    console: Console,
    *,
    with_superset: bool = True,
    with_collectors: bool = False,
    is_secured: bool = False,
) -> None:
    """Fetch what is missing, start what does not run, and return when all of it is healthy.

    Raises:
        UserError: something is missing on this machine, or a component does not become healthy.
    """
    settings.make_folders()
    if with_collectors:
        collectors.require_vcenter()
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
            # Said before anything is downloaded or stopped.
            checks.require_java()
            checks.require_disk(settings.home, settings.min_free_mb, "for intake")
        fetch.ensure(settings, console)
        if supervisor and has_changed:
            console.print("The settings have changed: starting anew.")
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
        _start(settings, supervisor, console)


def _set(switch: Path, is_on: bool) -> None:
    """A switch is a file that stands there."""
    if is_on:
        switch.touch()
    else:
        switch.unlink(missing_ok=True)


def down(settings: Settings, console: Console) -> bool:
    """Stop everything; return whether anything ran."""
    if not settings.run.exists():
        return False
    with alone(settings):
        supervisor = supervision.connect(settings)
        if supervisor:
            _stop(settings, supervisor, console)
        return _sweep(settings) or supervisor is not None


def _start(settings: Settings, supervisor: Supervisor, console: Console) -> None:
    began = time.monotonic()
    wanted = [each for each in COMPONENTS if each.is_wanted(settings)]
    steps: list[tuple[set[str], Callable[[Settings], object]]] = [
        ({"kafka"}, kafka.apply_principals),
        ({"kafka"}, kafka.apply_topics),
        ({"kafka", "clickhouse"}, lambda each: schema.apply(clickhouse.administrator(each))),
        ({"kafka", "clickhouse", "superset"}, dashboards.apply_if_changed),
    ]
    states = supervisor.states()
    started = {name for name, each in states.items() if each["statename"] == "RUNNING"}
    for unwanted in started - {each.name for each in wanted}:
        supervisor.stop(unwanted)
    already = set(started)
    ready: set[str] = set()
    ailments: dict[str, str] = {}
    pids: dict[str, set[int]] = {each.name: set() for each in COMPONENTS}
    with console.status("starting") as status:
        while True:
            for each in wanted:
                if each.name in ready or not ready.issuperset(each.after):
                    continue
                if each.name not in started:
                    supervisor.start(each.name)
                    started.add(each.name)
                if ailment := each.ailment(settings):
                    ailments[each.name] = ailment
                    continue
                ready.add(each.name)
                for step in [one for one in steps if ready.issuperset(one[0])]:
                    step[1](settings)
                    steps.remove(step)
                if each.name not in already:
                    seconds = time.monotonic() - began
                    console.print(f"[green]✓[/] {each.name:<18}{seconds:6.1f} s", highlight=False)
            waiting = [each.name for each in wanted if each.name not in ready]
            if not waiting:
                return
            status.update(f"waiting for {', '.join(waiting)}")
            for name, state in supervisor.states().items():
                pids[name].add(state["pid"])
            failing = [name for name in waiting if len(pids[name] - {0}) > STARTS]
            if failing or time.monotonic() - began > READY_SECONDS:
                name = (failing or waiting)[0]
                raise UserError(
                    f"{name} does not become ready ({ailments.get(name, 'it waits for others')}):"
                    f" `stunwatch logs {name}` tells why."
                )
            time.sleep(0.1)


def _stop(settings: Settings, supervisor: Supervisor, console: Console) -> None:
    with console.status("stopping") as status:
        for each in reversed(COMPONENTS):
            status.update(f"stopping {each.name}")
            supervisor.stop(each.name)
        supervisor.shut_down()


def _sweep(settings: Settings) -> bool:
    """End what a killed supervisor left behind; return whether there was anything."""
    leftover = list(processes(settings))
    end(leftover, patience_seconds=10.0)
    return bool(leftover)


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Let no two of `up`, `down`, `restore` and `upgrade` work on one pipeline at the same time."""
    descriptor = os.open(settings.run / "up.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
