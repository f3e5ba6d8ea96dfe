"""`stunwatch change`: records changes to the fleet, so that SQL can compare before and after."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer

from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.detectors.events import event_id
from stunwatch.errors import UserError, did_you_mean
from stunwatch.known_names import why_unknown
from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import Terminal
from stunwatch.settings import Settings, load_settings
from stunwatch.short_ids import SHORT, the_one
from stunwatch.times import TIME_HELP, in_zone, moment, stored

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
    help="""Note changes to the fleet, and compare the time before and after them.

    Examples:

        stunwatch change add --kind path_policy --title RR --at "yesterday 22:00"

        stunwatch change list

        stunwatch sql before_and_after_change
    """,
)


def _kinds(incomplete: str) -> list[str]:
    return [each for each in KINDS if each.startswith(incomplete)]


@change.callback()
def _group() -> None:
    pass


@change.command()
def add(
    kind: Annotated[str, typer.Option(help=f"One of: {', '.join(KINDS)}.", autocompletion=_kinds)],
    title: Annotated[str, typer.Option(help="What was changed, in a few words.")],
    at: Annotated[
        str | None, typer.Option(help=f"When it was changed. Default: now. {TIME_HELP}")
    ] = None,
    host: Annotated[str, typer.Option(help="The change concerns only this host.")] = "",
    device: Annotated[
        str, typer.Option(help="The change concerns only this LUN, for example naa.6000c29f.")
    ] = "",
    datastore: Annotated[str, typer.Option(help="The change concerns only this datastore.")] = "",
) -> None:
    """Note a change. Noting the same change twice has no effect.

    If the change concerns only one host, LUN or datastore, name it with --host, --device or
    --datastore. The comparison then uses only that object. A name that no log or inventory has is
    noted with a warning, and nothing is compared.

    Examples:

        stunwatch change add --kind path_policy --title RR --at "yesterday 22:00"

        stunwatch change add --kind firmware --title 5.2.1 --datastore ds-gold
    """
    if kind not in KINDS:
        raise UserError(
            f"--kind {kind} is unknown.{did_you_mean(kind, KINDS)} Use one of: {', '.join(KINDS)}."
        )
    title = " ".join(title.split())
    if not title:
        raise UserError("--title is empty. Describe the change in a few words.")
    settings = load_settings()
    site = settings.site_timezone
    changed_at = moment(at, site=site) if at else datetime.now(UTC)
    if changed_at > datetime.now(UTC):
        raise UserError(f"--at {at} is in the future. Record a change after it was made.")
    names = {"host": host.strip(), "device": device.strip(), "datastore": datastore.strip()}
    change_id = note(settings, kind=kind, title=title, changed_at=changed_at, **names)
    console = Terminal(stderr=True, highlight=False)
    console.print(f"noted: {title} ({kind}) at {in_zone(changed_at, site)}", soft_wrap=True)
    # A change may be recorded before the first line of a new host or LUN.
    if unknown := unknown_names(as_user(settings, "analyst"), names):
        for each in unknown:
            console.print(f"Warning: {each}", soft_wrap=True)
        console.print(
            "Before and after cannot be compared until a log or inventory has this name. If it is"
            f" misspelled: stunwatch change remove {change_id[:SHORT]}",
            soft_wrap=True,
        )
        return
    console.print(
        "compare before and after: stunwatch sql before_and_after_change"
        f" --param change={change_id}",
        soft_wrap=True,
    )


def unknown_names(reader: ClickHouse, names: Mapping[str, str]) -> list[str]:
    """Return one sentence for each unknown name of a change. `names` is by kind."""
    return [
        unknown
        for kind, name in names.items()
        if name and (unknown := why_unknown(reader, kind, name))
    ]


def note(
    settings: Settings,
    *,
    kind: str,
    title: str,
    changed_at: datetime,
    host: str = "",
    device: str = "",
    datastore: str = "",
) -> str:
    """Store a change; return its id. Storing the same change twice results in one row."""
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
    return change_id


@change.command("list")
def list_changes(output: FormatOption = Format.TABLE) -> None:
    """List the noted changes, the newest first.

    Examples:

        stunwatch change list

        stunwatch change list --format json
    """
    settings = load_settings()
    rows = as_user(settings, "analyst").named_rows(
        "SELECT toString(change_id) AS change_id, formatDateTime(changed_at, '%FT%TZ') AS"
        " changed_at, kind, title, host, device, datastore FROM changes"
        " ORDER BY changes.changed_at DESC, changes.change_id"
    )
    if output is Format.JSON:
        print_json(rows)
        return
    console = Terminal(highlight=False)
    if not rows:
        console.print("No changes. `stunwatch change add --help` shows how to note one.")
        return
    for change_id, changed_at, kind, title, host, device, datastore in map(dict.values, rows):
        at = in_zone(stored(changed_at), settings.site_timezone)
        concerns = ", ".join(filter(None, (host, device, datastore))) or "all"
        console.print(f"{at}  {kind:11}  {title}  ({concerns})", markup=False, soft_wrap=True)
        console.print(f"{'':{len(at)}}  {change_id}", style="dim")


@change.command()
def remove(
    change_id: Annotated[
        str,
        typer.Argument(help="The id that `change list` shows; its first characters are enough."),
    ],
) -> None:
    """Remove a change that was noted by mistake.

    Example:

        stunwatch change remove 0b6f3f0e
    """
    settings = load_settings()
    found = the_one(
        as_user(settings, "analyst"),
        "SELECT toString(change_id) AS id, title, kind FROM changes",
        change_id,
        "change",
        "stunwatch change list",
    )
    _insert(settings, {"change_id": found["id"], "is_deleted": 1})
    Terminal(stderr=True, highlight=False).print(
        f"removed: {found['title']} ({found['kind']})", soft_wrap=True
    )


def _insert(settings: Settings, row: dict[str, Any]) -> None:
    text = orjson.dumps(row).decode()
    as_user(settings, "ingest").command(f"INSERT INTO changes_stored FORMAT JSONEachRow {text}")
