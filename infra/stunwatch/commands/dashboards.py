"""`stunwatch dashboards`: what Superset shows is what the repository says."""

from __future__ import annotations

import typer
from rich.console import Console

from stunwatch.settings import load_settings

dashboards = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""Superset's dashboards as files of infra/superset/assets/.

    Examples:

        stunwatch dashboards apply

        stunwatch dashboards pull
    """,
)


@dashboards.callback()
def _group() -> None:
    pass


@dashboards.command()
def apply() -> None:
    """Bring Superset to what the files say; remove what is no file any more.

    Overwrites what was changed in a browser and not pulled. Applied twice, it changes nothing.
    Where Superset refuses a file, it is named, nothing is imported and the exit code is 2.

    Example:

        stunwatch dashboards apply
    """
    from stunwatch import dashboards as bridge  # noqa: PLC0415 (reads every asset)

    done = bridge.apply(load_settings())
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for each in done.removed:
        console.print(f"removed: {each}")
    console.print(f"applied: {done.files} files")


@dashboards.command()
def pull() -> None:
    """Write what was changed in a browser into the files, for `git diff` to show.

    Example:

        stunwatch dashboards pull
    """
    from stunwatch import dashboards as bridge  # noqa: PLC0415

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    changed = bridge.pull(load_settings())
    for each in changed:
        console.print(f"changed: {each}")
    console.print("nothing has changed" if not changed else f"{len(changed)} files have changed")
