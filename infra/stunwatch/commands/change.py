"""`stunwatch change`: what people did to the fleet, for SQL to tell whether it helped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import orjson
import typer
from rich.console import Console

from detectors.events import event_id
from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError
from stunwatch.settings import Settings, load_settings
from stunwatch.times import moment

KINDS = (
    "path_policy",
    "firmware",
    "driver",
    "esxi_build",
    "array",
    "fabric",
    "capacity",
    "backup",
    "vm",
    "setting",
    "other",
)

change = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""What was changed in the fleet, when, and whether it helped.

    Examples:

        stunwatch change add --kind path_policy --at "2012-05-01 06:00" --title "Round Robin"

        stunwatch change list

        stunwatch sql before_and_after_change
    """,
)


@change.callback()
def _group() -> None:
    pass


@change.command()
def add(
    kind: Annotated[str, typer.Option(help=f"One of: {', '.join(KINDS)}.")],
    title: Annotated[str, typer.Option(help="What was changed, in a few words.")],
    at: Annotated[
        str | None,
        typer.Option(
            help="When, UTC unless it names a zone: 2012-05-01T06:00+02:00. Default: now."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Only this host was changed.")] = "",
    device: Annotated[str, typer.Option(help="Only this LUN: naa.…")] = "",
    datastore: Annotated[str, typer.Option(help="Only this datastore.")] = "",
) -> None:
    """Note a change. The same change again changes nothing.

    Give --host, --device or --datastore where it concerned only these: the verdict then looks at
    nothing else.

    Examples:

        stunwatch change add --kind path_policy --at "2012-05-01 06:00" --title "Round Robin"

        stunwatch change add --kind firmware --title "array 5.2.1" --datastore eql-pool-1
    """
    if kind not in KINDS:
        raise UserError(f"--kind {kind} is not known; it is one of: {', '.join(KINDS)}.")
    title = " ".join(title.split())
    if not title:
        raise UserError("--title is empty; a few words say later what was done.")
    changed_at = moment(at) if at else datetime.now(UTC)
    if changed_at > datetime.now(UTC):
        raise UserError(f"--at {at} lies in the future; note a change once it was made.")
    change_id, when = note(
        load_settings(),
        kind=kind,
        title=title,
        changed_at=changed_at,
        host=host,
        device=device,
        datastore=datastore,
    )
    console = Console(stderr=True, highlight=False)
    console.print(f"noted: {title} ({kind}) at {when} UTC", soft_wrap=True)
    console.print(
        f"whether it helped: stunwatch sql before_and_after_change --param change={change_id}",
        soft_wrap=True,
    )


def note(
    settings: Settings,
    *,
    kind: str,
    title: str,
    changed_at: datetime,
    host: str = "",
    device: str = "",
    datastore: str = "",
) -> tuple[str, str]:
    """Store a change; return its id and its time as it is stored. Twice the same is one."""
    when = f"{changed_at:%Y-%m-%d %H:%M:%S}.{changed_at.microsecond // 1000:03}"
    change_id = event_id("changes", when, kind, title, host, device, datastore)
    row = {
        "change_id": change_id,
        "changed_at": when,
        "kind": kind,
        "title": title,
        "host": host,
        "device": device,
        "datastore": datastore,
    }
    _insert(settings, row)
    return change_id, when


@change.command("list")
def list_changes() -> None:
    """Show every change, the newest first.

    Example:

        stunwatch change list
    """
    rows = as_user(load_settings(), "reader").rows(
        "SELECT formatDateTime(changed_at, '%F %T'), kind, title, host, device, datastore,"
        " change_id FROM changes ORDER BY changed_at DESC, change_id"
    )
    console = Console(highlight=False)
    if not rows:
        console.print("No change was noted yet; `stunwatch change add --help` shows how.")
        return
    for at, kind, title, host, device, datastore, change_id in rows:
        concerns = ", ".join(filter(None, (host, device, datastore))) or "everything"
        console.print(f"{at}  {kind:11}  {title}  ({concerns})", markup=False, soft_wrap=True)
        console.print(f"{'':19}  {change_id}", style="dim")


@change.command()
def remove(change_id: Annotated[str, typer.Argument(help="As `change list` shows it.")]) -> None:
    """Take back a change that was noted by mistake.

    Example:

        stunwatch change remove 0b6f3f0e-6f5c-5b0e-9a3e-2f6f0c1d2e3f
    """
    try:
        wanted = str(UUID(change_id))
    except ValueError:
        raise UserError(f"{change_id!r} is no id; `stunwatch change list` shows them.") from None
    settings = load_settings()
    if not as_user(settings, "reader").rows(
        "SELECT 1 FROM changes WHERE change_id = {id:UUID}", {"id": wanted}
    ):
        raise UserError(f"There is no change {wanted}; `stunwatch change list` shows them.")
    _insert(settings, {"change_id": wanted, "is_deleted": 1})


def _insert(settings: Settings, row: dict[str, Any]) -> None:
    text = orjson.dumps(row).decode()
    as_user(settings, "ingest").command(f"INSERT INTO changes_stored FORMAT JSONEachRow {text}")
