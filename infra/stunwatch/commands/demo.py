"""`stunwatch demo`: the pipeline, a bundled incident, and what was found in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from ingest.replay import Options, plan
from stunwatch.clickhouse import as_user
from stunwatch.commands import change, replay
from stunwatch.commands.up import up
from stunwatch.investigations import investigations
from stunwatch.runtime import superset
from stunwatch.settings import load_settings
from stunwatch.times import moment

INCIDENT = Path(__file__).parents[1] / "demo" / "incident"
"""Written for the project in the syntax of ESXi 5.0 and 8: snapshot removals stun a VM."""

WORST_VM = "sql01"
"""The VM of the incident whose snapshot removals stun it."""

FIXED_AT = "2012-05-01 00:00:00"

FIX: dict[str, Any] = {
    "kind": "capacity",
    "title": "Space freed in the array's pool",
    "changed_at": moment(FIXED_AT),
    "datastore": "eql-pool-1",
}
"""The change after which the VM's snapshots were removed in seconds."""

_WORST = """
    SELECT verdict, arrayMap(each -> concat(each.step, ', for ', each.because), next_steps)
    FROM incidents WHERE has(vms, {vm:String}) ORDER BY worst_stun_us DESC LIMIT 1
"""


def demo() -> None:
    """Start the pipeline, replay a bundled incident and show what was found.

    Example:

        stunwatch demo
    """
    up()
    settings = load_settings()
    console = Console()
    with plan([INCIDENT], Options()) as what:
        outcome = replay.run(settings, what, Options(), console)
    console.print(outcome.summary, highlight=False)
    if outcome.missing:
        raise typer.Exit(replay.EXIT_INCOMPLETE)
    change.note(settings, **FIX)
    reader = as_user(settings, "reader")
    longest = investigations()["longest_stuns"]
    rows = reader.rows(longest.query, longest.parameters({"vm": WORST_VM}))
    table = Table("VM", "ended at (UTC)", "stunned for", "µs", "severity")
    for vm, _, _, ended_at, duration_us, duration_s, severity, *_ in rows:
        table.add_row(vm, ended_at, f"{duration_s:.3f} s", f"{duration_us:,}", severity)
    console.print("\nThe ten longest stuns of the incident:", table)
    for verdict, next_steps in reader.rows(_WORST, {"vm": WORST_VM}):
        console.print(f"\nThe worst of it in a sentence:\n  {verdict}\nWhat to do:", markup=False)
        for number, step in enumerate(next_steps, 1):
            console.print(f"  {number}. {step}", highlight=False, markup=False)
    if superset.is_wanted(settings):
        console.print(f"\n{superset.how_to_enter(settings)}", highlight=False, soft_wrap=True)
    console.print(
        "Next:\n"
        f'  .venv/bin/stunwatch sql stuns_before_and_after --param "at={FIXED_AT}"\n'
        '  .venv/bin/stunwatch sql "SELECT arrayJoin(evidence) FROM stuns'
        ' ORDER BY duration_us DESC LIMIT 3"\n'
        "  .venv/bin/stunwatch replay <your logs>      and then: stunwatch sql --list\n"
        "  .venv/bin/stunwatch down",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
