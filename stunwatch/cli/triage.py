"""`stunwatch triage`: analyses logs without a pipeline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from stunwatch.cli.log_options import Datastore, Host, Paths, Vm, Year, Zone
from stunwatch.errors import UserError
from stunwatch.ingest.replay import Options, plan
from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import Terminal, printable
from stunwatch.settings import load_settings
from stunwatch.times import zone

EXIT_INCOMPLETE = 1
"""Some files could not be read, by the same rules as `replay`."""


def triage(
    paths: Paths,
    host: Host = None,
    vm: Vm = None,
    datastore: Datastore = None,
    tz: Zone = "UTC",
    year: Year = None,
    top: Annotated[int, typer.Option(min=1, help="Number of stuns and incidents shown.")] = 10,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML page to this file.")] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the storage problems in logs: worst stuns, incidents, next steps.

    Needs no running pipeline and stores nothing. Reads what `replay` reads: logs, compressed
    logs (.gz, .zst, .bz2, .xz), archives (.tgz, .tar, .zip), folders, vm-support bundles, and
    exports of log servers (JSON, CSV). Finds the same events and incidents.

    Exit code 0: every log was read. Exit code 1: a file could not be read, or no file is a log. A
    file that is not a log is named and does not change the exit code.

    Examples:

        stunwatch triage ./esx-esx01-2024-05-06.tgz --html triage.html

        stunwatch triage vmware.log --vm mail01 --format json
    """
    from stunwatch.triage.finding import find  # noqa: PLC0415 (slow to import)
    from stunwatch.triage.page import render  # noqa: PLC0415
    from stunwatch.triage.results import results_of  # noqa: PLC0415
    from stunwatch.triage.showing import Show  # noqa: PLC0415
    from stunwatch.triage.terminal import show  # noqa: PLC0415

    if html is not None and (html.is_dir() or not html.absolute().parent.is_dir()):
        raise UserError(f"Cannot write {html}: it is a folder, or its folder does not exist.")
    settings = load_settings()
    options = Options(
        host=host,
        vm=vm,
        datastore=datastore,
        zone=zone(tz),
        year=year,
        tailed=settings.vmware_log_path,
    )
    errors = Terminal(stderr=True)
    started = time.monotonic()
    with plan(paths, options) as what:
        if output is Format.JSON:
            for problem in what.problems:
                said = printable(f"{problem.path}: {problem.sentence}")
                errors.print(said, style="yellow", highlight=False, soft_wrap=True)
        if not what.files:
            said = "; ".join(f"{each.path}: {each.sentence}" for each in what.problems)
            raise UserError(f"There is no log to read. {said or 'The folders are empty'}.")
        with Show(errors, what.size_bytes) as progress:
            found = find(what, options, progress)
        results = results_of(what, found, time.monotonic() - started)
    if output is Format.JSON:
        print_json(results.as_json())
    else:
        show(results, top, Terminal(), settings.site_timezone)
    if html is not None:
        html.write_text(render(results, top, settings.site_timezone), encoding="utf-8")
        errors.print(f"Wrote {printable(str(html))}", highlight=False, soft_wrap=True)
    if results.is_incomplete:
        raise typer.Exit(EXIT_INCOMPLETE)
