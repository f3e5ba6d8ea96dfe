"""`stunwatch dashboards`: stores Superset's dashboards as files of the repository."""

from __future__ import annotations

import typer

from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import Terminal
from stunwatch.settings import load_settings

dashboards = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""Copy dashboards between Superset and the files in infra/superset/assets/.

    Examples:

        stunwatch dashboards apply

        stunwatch dashboards pull
    """,
)


@dashboards.callback()
def _group() -> None:
    pass


@dashboards.command()
def apply(output: FormatOption = Format.TABLE) -> None:
    """Import the files into Superset; delete dashboards that have no file any more.

    Changes made in a browser are lost unless you run `dashboards pull` first. If Superset refuses a
    file, the error names it and nothing is imported.

    Example:

        stunwatch dashboards apply
    """
    from stunwatch import dashboards as bridge  # noqa: PLC0415 (reads every asset)

    done = bridge.apply(load_settings())
    if output is Format.JSON:
        print_json({"files": done.files, "removed": [str(each) for each in done.removed]})
    console = Terminal(stderr=True, highlight=False, soft_wrap=True)
    for each in done.removed:
        console.print(f"removed: {each}")
    console.print(f"applied: {done.files} files")


@dashboards.command()
def pull(output: FormatOption = Format.TABLE) -> None:
    """Write changes made in a browser into the files; `git diff` then shows them.

    Example:

        stunwatch dashboards pull
    """
    from stunwatch import dashboards as bridge  # noqa: PLC0415
    from stunwatch import folders  # noqa: PLC0415
    from stunwatch.errors import UserError  # noqa: PLC0415

    if folders.is_installed():
        raise UserError("`dashboards pull` changes files of a checkout. Run it in a checkout.")
    console = Terminal(stderr=True, highlight=False, soft_wrap=True)
    changed = bridge.pull(load_settings())
    if output is Format.JSON:
        print_json({"changed": [str(each) for each in changed]})
    for each in changed:
        console.print(f"changed: {each}")
    console.print(f"changed: {len(changed)} files" if changed else "no changes in Superset")
