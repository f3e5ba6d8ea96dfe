"""`stunwatch replay`: stores the lines of files, folders, archives and vm-support bundles."""

from __future__ import annotations

from typing import Any

import typer

from stunwatch import found
from stunwatch.cli.log_options import Datastore, Host, Paths, Vm, Year, Zone
from stunwatch.errors import UserError
from stunwatch.ingest.replay import Options, Problem, plan
from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import Terminal, printable
from stunwatch.replaying import Interrupted, Outcome, events_of, run
from stunwatch.settings import load_settings
from stunwatch.times import zone

EXIT_INCOMPLETE = 1
"""Some lines are neither stored nor rejected, some files could not be read, or no file is a log."""

EXIT_INTERRUPTED = 130
"""Exit code after Ctrl-C. The same command continues the replay."""


def replay(
    paths: Paths,
    host: Host = None,
    vm: Vm = None,
    datastore: Datastore = None,
    tz: Zone = "UTC",
    year: Year = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Store logs and find the events in them; return when both can be queried.

    Reads logs, compressed logs (.gz, .zst, .bz2, .xz), archives (.tgz, .tar, .zip), folders,
    vm-support bundles, and exports of log servers (JSON, CSV). It recognises the kind of a file by
    its content. Replaying the same files again stores nothing twice.

    Exit code 0: every line was stored, or rejected with a reason. Exit code 1: a file could not be
    read, lines are missing, or no file is a log. A file that is not a log is named and does not
    change the exit code.

    Examples:

        stunwatch replay ./esx-esx01-2024-05-06.tgz

        stunwatch replay vmware.log --vm mail01 --datastore ds-gold

        stunwatch replay ./old-logs --tz Europe/Vienna --year 2009
    """
    settings = load_settings()
    options = Options(
        host=host,
        vm=vm,
        datastore=datastore,
        zone=zone(tz),
        year=year,
        tailed=settings.vmware_log_path,
    )
    console = Terminal(stderr=True)
    try:
        with plan(paths, options) as what:
            for problem in what.problems:
                said = printable(f"{problem.path}: {problem.sentence}")
                console.print(said, style="yellow", markup=False, highlight=False, soft_wrap=True)
            if not what.files:
                raise UserError(
                    "No logs found in these paths. Name log files, folders with log files, or"
                    " vm-support bundles."
                )
            outcome = run(settings, what, options, console)
    except KeyboardInterrupt as stop:
        said = stop.summary if isinstance(stop, Interrupted) else "Interrupted. Nothing was sent."
        console.print(said, style="yellow", highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    console.print(outcome.summary, highlight=False, soft_wrap=True)
    counts = events_of(settings, outcome)
    if output is Format.JSON:
        print_json(_as_json(outcome, what.problems, counts))
    else:
        for line in found_in_words(counts, outcome.rejected):
            console.print(line, highlight=False, soft_wrap=True)
    if outcome.missing or outcome.problems or what.is_bad:
        raise typer.Exit(EXIT_INCOMPLETE)


def found_in_words(counts: dict[str, int] | None, rejected: int) -> list[str]:
    """Return the number of events by kind, each with the command that lists them."""
    if counts is None:
        return ["The events could not be counted. See them: stunwatch sql --list"]
    lines = found.in_words(counts)
    if rejected:
        lines.append(f"Rejected {rejected:,} lines. Reasons: stunwatch sql rejected_by_reason")
    return lines


def _as_json(
    outcome: Outcome, problems: list[Problem], counts: dict[str, int] | None
) -> dict[str, Any]:
    return {
        "run_id": outcome.run_id,
        "lines": {
            "read": outcome.read,
            "stored": outcome.stored,
            "rejected": outcome.rejected,
            "missing": outcome.missing,
        },
        "seconds": round(outcome.seconds, 3),
        "problems": [
            {"path": each.path, "problem": each.sentence, "is_failure": each.is_failure}
            for each in problems
        ]
        + [{"path": None, "problem": each, "is_failure": True} for each in outcome.problems],
        "found": counts,
    }
