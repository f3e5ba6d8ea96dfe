"""`stunwatch demo`: starts the pipeline, replays an incident, and sends a scenario live."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from stunwatch import replaying
from stunwatch.cli import change, replay
from stunwatch.clickhouse import as_user
from stunwatch.demo import live
from stunwatch.demo.scenario import Scenario, load, made_up_names
from stunwatch.demo.watching import Watching
from stunwatch.errors import UserError
from stunwatch.ingest.replay import Options, plan
from stunwatch.investigations import investigations
from stunwatch.local import fetch, pipeline, superset
from stunwatch.local.trial import require_no_other_logs
from stunwatch.printable import Terminal
from stunwatch.settings import Settings, load_settings
from stunwatch.times import in_zone, moment, stored

INCIDENT = Path(__file__).parents[1] / "demo" / "incident"
"""The bundled incident: snapshot removals stun a VM.

The logs were written for the project, in the syntax of ESXi 5.0 and 8.
"""

WORST_VM = "sql01"
"""The VM of the incident that is stunned during snapshot removals."""

FIXED_AT = "2012-05-01 00:00:00"

FIX: dict[str, Any] = {
    "kind": "capacity",
    "title": "Space freed in the array's pool",
    "changed_at": moment(FIXED_AT),
    "datastore": "eql-pool-1",
}
"""The change after which snapshots of the VM were removed within seconds."""

_WORST = """
    SELECT verdict, arrayMap(each -> concat(each.step, ', because ', each.because), next_steps)
    FROM incidents WHERE has(vms, {vm:String}) ORDER BY worst_stun_us DESC LIMIT 1
"""


EXIT_NOT_SEEN = 1
"""Exit code if a live stun did not appear in time."""

EXIT_STOPPED = 130
"""Exit code after Ctrl-C, as for any command."""


def demo(
    is_live: Annotated[
        bool,
        typer.Option(
            "--live/--no-live", help="After the replay, feed half a minute of live lines."
        ),
    ] = True,
) -> None:
    """Start the pipeline, replay a bundled incident, feed live lines and show what was found.

    The live lines go through Fluent Bit if `fluent-bit` is on the PATH, else through Python. Their
    hosts, VMs and datastore have names that begin with `demo-`. It refuses if the pipeline has logs
    of other hosts. Exit code 0: the live stuns appeared; 1: one of them did not in time.

    Examples:

        stunwatch demo

        stunwatch demo --no-live
    """
    settings = load_settings()
    console = Terminal()
    scenario = load()
    # Superset is needed only at the end, so it is downloaded and started in the background.
    fetching = threading.Thread(target=_fetch_superset, args=(settings,), daemon=True)
    fetching.start()
    finishing = threading.Thread(target=_start_superset, args=(settings, fetching), daemon=True)
    _up(settings, waits_for_superset=False)
    require_no_other_logs(settings, made_up_names(), "stunwatch demo")
    try:
        _replay(settings, console)
        # While lines are sent, the processors are mostly idle.
        finishing.start()
        watching = live.run(settings, scenario, console) if is_live else None
    except KeyboardInterrupt:
        console.print("\nStopped. The pipeline runs; `stunwatch down` stops it.", soft_wrap=True)
        raise typer.Exit(EXIT_STOPPED) from None
    if watching:
        _conclude(watching, console)
    with console.status("starting Superset"):
        finishing.join()
    _up(settings, waits_for_superset=True)
    if superset.is_wanted(settings):
        console.print(
            f"\n{superset.how_to_enter(settings)}\nDashboards open with the last 24 hours. The"
            " replayed incident is from 2012:"
            f" {superset.address(settings)}/entity/vm?vm={WORST_VM}",
            highlight=False,
            soft_wrap=True,
        )
    _show_what_is_next(settings, scenario if is_live else None, console)
    if watching and not watching.has_seen_all_stuns:
        raise typer.Exit(EXIT_NOT_SEEN)


# The last `up` does whatever these two could not do, and reports errors.
def _fetch_superset(settings: Settings) -> None:
    with suppress(UserError):
        fetch.ensure(settings, Terminal(quiet=True), fetch.of_superset(settings))


def _start_superset(settings: Settings, fetching: threading.Thread) -> None:
    fetching.join()
    with suppress(UserError):
        pipeline.up(settings, Terminal(quiet=True))


def _up(settings: Settings, *, waits_for_superset: bool) -> None:
    console = Terminal(stderr=True)
    began = time.monotonic()
    pipeline.up(settings, console, waits_for_superset=waits_for_superset)
    what = "The pipeline" if waits_for_superset else "Detection"
    console.print(f"{what} is up ({time.monotonic() - began:.1f} s).", highlight=False)


def _replay(settings: Settings, console: Console) -> None:
    """Replay the bundled incident; show its longest stuns, its verdict and next steps."""
    with plan([INCIDENT], Options()) as what:
        outcome = replaying.run(settings, what, Options(), console)
    console.print(outcome.summary, highlight=False)
    if outcome.missing:
        raise typer.Exit(replay.EXIT_INCOMPLETE)
    change.note(settings, **FIX)
    reader = as_user(settings, "analyst")
    longest = investigations()["longest_stuns"]
    rows = reader.rows(longest.query, longest.parameters({"vm": WORST_VM}))
    table = Table("VM", "ended at", "stunned for", "µs", "severity")
    for vm, _, _, ended_at, duration_us, duration_s, severity, *_ in rows:
        ended = in_zone(stored(ended_at), settings.site_timezone, "milliseconds")
        table.add_row(vm, ended, f"{duration_s:.3f} s", f"{duration_us:,}", severity)
    console.print("\nThe ten longest stuns of the incident:", table)
    for verdict, next_steps in reader.rows(_WORST, {"vm": WORST_VM}):
        console.print(f"\nThe worst incident:\n  {verdict}\nWhat to do:", markup=False)
        for number, step in enumerate(next_steps, 1):
            console.print(f"  {number}. {step}", highlight=False, markup=False)


def _conclude(watching: Watching, console: Console) -> None:
    """Print the live incident's verdict, or what did not appear and how to see it later."""
    if incident := watching.incident:
        console.print(
            f"\nThe live incident:\n  {incident.verdict}\nWhat to do first:\n"
            f"  {incident.first_step}",
            highlight=False,
            soft_wrap=True,
        )
    if missing := watching.missing():
        name = command_name()
        console.print(
            f"\nNot seen in time: {'; '.join(missing)}. The pipeline may still be reading the"
            " lines. To see it later:\n"
            f"  {name} sql longest_stuns --param vm={watching.scenario.worst_vm}\n"
            f"  {name} incident list\n"
            f"  {name} status",
            style="yellow",
            highlight=False,
            soft_wrap=True,
        )


def _show_what_is_next(settings: Settings, scenario: Scenario | None, console: Console) -> None:
    name = command_name()
    of_live = f"  {name} sql longest_stuns --param vm={scenario.worst_vm}\n" if scenario else ""
    console.print(
        "Next:\n"
        f"{of_live}"
        f'  {name} sql stuns_before_and_after --param "at={FIXED_AT}"\n'
        f'  {name} sql "SELECT arrayJoin(evidence) FROM stuns'
        ' ORDER BY duration_us DESC LIMIT 3"\n'
        f"  {name} replay <your logs>      and then: {name} sql --list\n"
        f"  {name} down      stops the pipeline; its data stays\n"
        f"To remove the demo, and all other data of this pipeline, stop it and delete"
        f" {settings.home}",
        highlight=False,
        soft_wrap=True,
    )


def command_name() -> str:
    """Return how this command was called: `stunwatch`, or its path if it is not on the PATH."""
    called = Path(sys.argv[0])
    on_path = shutil.which("stunwatch")
    if called.name != "stunwatch" or (on_path and Path(on_path).resolve() == called.resolve()):
        return "stunwatch"
    try:
        return str(called.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(called)
