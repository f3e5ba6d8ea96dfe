"""Arguments and options of all commands that read logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Paths = Annotated[
    list[Path], typer.Argument(help="Log files, folders, archives or vm-support bundles.")
]
Host = Annotated[str | None, typer.Option("--host", help="The host of lines that do not name one.")]
Vm = Annotated[str | None, typer.Option("--vm", help="The VM of a single vmware.log.")]
Datastore = Annotated[str | None, typer.Option("--datastore", help="The datastore of that VM.")]
Zone = Annotated[
    str, typer.Option("--tz", help="Time zone of times without one, for example Europe/Vienna.")
]
Year = Annotated[
    int | None, typer.Option("--year", help="Year of the first time without one (ESX 3 and 4).")
]
