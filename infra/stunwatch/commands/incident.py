"""`stunwatch incident`: what goes on, and what people say of it."""

from __future__ import annotations

import getpass
import os
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import uuid4

import orjson
import typer
from rich.console import Console

from stunwatch.alerts.marks import read_marks
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.errors import UserError
from stunwatch.printable import printable
from stunwatch.settings import Settings, load_settings

LONGEST_MUTE = timedelta(days=30)
SHORT = 8
"""So many characters of an id are shown; fewer are enough where they are one id's alone."""

SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow", "notice": "cyan"}

LISTED = (
    "toString(incident_id) AS id, state, scope, severity, verdict, confidence,"
    " formatDateTime(opened_at, '%F %T') AS began,"
    " ifNull(formatDateTime(closed_at, '%F %T'), '') AS ended,"
    " hosts, devices, datastores, vms, reporting_hosts, missing, next_steps, evidence, run_id"
)

incident = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""What goes on in the fleet, and what people say of it.

    An id may be cut to its first characters, four at least.

    Examples:

        stunwatch incident list

        stunwatch incident show 1f0e9c2a

        stunwatch incident ack 1f0e9c2a --note "the array's vendor is called"

        stunwatch incident mute --datastore ds-gold --for 4h --reason "firmware update"

        stunwatch incident wrong 1f0e9c2a --note "it was the backup"
    """,
)


@incident.callback()
def _group() -> None:
    pass


@incident.command("list")
def list_incidents(
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Also what was over more than a day ago.")
    ] = False,
) -> None:
    """Show incidents, what goes on first, and what is muted.

    Example:

        stunwatch incident list --all
    """
    settings = load_settings()
    reader = as_user(settings, "reader")
    recent = "closed_at IS NULL OR closed_at > now() - INTERVAL 1 DAY"
    rows = reader.named_rows(
        f"SELECT {LISTED} FROM incidents WHERE {'true' if all_of_them else recent}"
        " ORDER BY indexOf(['open', 'noted', 'closed'], state), opened_at DESC, id",
    )
    console = Console(highlight=False)
    marks, now = read_marks(settings), datetime.now(UTC)
    said = _said(reader)
    for each in rows:
        notes = list(said.get(each["id"], ()))
        muted_until = marks.muted_until(each, now) if each["state"] == "open" else None
        if muted_until:
            notes.append(f"muted until {datetime.fromtimestamp(muted_until, UTC):%F %T}")
        until = f"until {each['ended']}" if each["ended"] else f"{'':25}"
        console.print(
            f"{each['id'][:SHORT]}  {each['state']:6}  {each['severity']:8} "
            f" {each['scope']:15}  since {each['began']}  {until}  {'; '.join(notes)}".rstrip(),
            style=SEVERITY_STYLES.get(each["severity"], "") if each["state"] == "open" else "dim",
            markup=False,
            soft_wrap=True,
        )
        _print(console, f"{'':{SHORT}}  {each['verdict']}")
    if not rows:
        count = reader.rows("SELECT count() FROM incidents")[0][0]
        older = f" `stunwatch incident list --all` shows {count:,} older ones." if count else ""
        _print(console, f"There is no incident{' of the last day' if count else ''}.{older}")
    for line in shown_mutes(reader):
        _print(console, line)


@incident.command()
def show(
    incident_id: Annotated[str, typer.Argument(help="As `incident list` shows it.")],
) -> None:
    """Show all that is known of an incident: verdict, what to do next, the lines that prove it.

    Example:

        stunwatch incident show 1f0e9c2a
    """
    settings = load_settings()
    reader = as_user(settings, "reader")
    found = _find(reader, incident_id)
    console = Console(highlight=False)
    until = f" until {found['ended']}" if found["ended"] else ""
    console.print(
        f"{found['state']}, {found['severity']}, since {found['began']}{until} UTC",
        style=SEVERITY_STYLES.get(found["severity"], ""),
        soft_wrap=True,
    )
    _print(console, found["verdict"])
    _print(console, "")
    silent = max(0, found["reporting_hosts"] - len(found["hosts"]))
    _print(console, f"Scope: {found['scope']}; confidence: {found['confidence']}.")
    _print(
        console,
        f"Hosts heard: {found['reporting_hosts']:,}, of which {silent:,} show nothing of it.",
    )
    for kind in ("hosts", "devices", "datastores", "vms"):
        if found[kind]:
            label = "VMs" if kind == "vms" else kind.capitalize()
            _print(console, f"{label}: {', '.join(found[kind])}")
    _print_list(console, "What is missing", found["missing"])
    _print_steps(console, found["next_steps"])
    _print_list(console, "The log says", found["evidence"])
    _print_list(console, "People said", _history(reader, found["id"]))
    muted_until = read_marks(settings).muted_until(found, datetime.now(UTC))
    if muted_until and found["state"] == "open":
        _print(console, "")
        _print(console, f"Muted until {datetime.fromtimestamp(muted_until, UTC):%F %T} UTC.")
    _print(console, "")
    _print(console, f"{found['id']}, found by: {found['run_id']}")


@incident.command()
def ack(
    incident_id: Annotated[str, typer.Argument(help="As `incident list` shows it.")],
    note: Annotated[str, typer.Option(help="What others should know.")] = "",
) -> None:
    """Say that you see to it. Nobody is alarmed again unless it becomes critical; its end is told.

    Example:

        stunwatch incident ack 1f0e9c2a --note "the array's vendor is called"
    """
    settings = load_settings()
    found = _find(as_user(settings, "reader"), incident_id)
    if found["state"] == "closed":
        raise UserError(
            f"Incident {_short(found)} is over since {found['ended']} UTC: it alarms nobody."
        )
    _mark(settings, found, "ack", note)
    _say(f"acknowledged: {_short(found)}, {found['verdict']}")


@incident.command()
def right(
    incident_id: Annotated[str, typer.Argument(help="As `incident list` shows it.")],
    note: Annotated[str, typer.Option(help="How it turned out.")] = "",
) -> None:
    """Say that the verdict was right. The last judgement counts.

    Example:

        stunwatch incident right 1f0e9c2a
    """
    _judge(incident_id, "right", note)


@incident.command()
def wrong(
    incident_id: Annotated[str, typer.Argument(help="As `incident list` shows it.")],
    note: Annotated[str, typer.Option(help="What it was.")] = "",
) -> None:
    """Say that the verdict was wrong. The last judgement counts.

    Example:

        stunwatch incident wrong 1f0e9c2a --note "it was the backup, not the array"
    """
    _judge(incident_id, "wrong", note)


@incident.command()
def mute(
    how_long: Annotated[str, typer.Option("--for", help="30m, 4h, 2d or 1d12h; 30 days at most.")],
    reason: Annotated[str, typer.Option(help="Why, for those who wonder at the silence.")],
    host: Annotated[str, typer.Option(help="Incidents of this host.")] = "",
    device: Annotated[str, typer.Option(help="Incidents of this LUN: naa.…")] = "",
    datastore: Annotated[str, typer.Option(help="Incidents of this datastore.")] = "",
) -> None:
    """Alarm nobody of a host, LUN or datastore for a while.

    Where several are named, each is muted for itself. An incident is held back only if all that it
    is about is muted: its host; its LUNs or datastores; of an array every LUN. What is still open
    when the mute expires is told then, and the end of what was told is told.

    Examples:

        stunwatch incident mute --datastore ds-gold --for 4h --reason "firmware update"

        stunwatch incident mute --host esx07 --device naa.6000c29f --for 1d --reason "new HBA"
    """
    names = {"host": host.strip(), "device": device.strip(), "datastore": datastore.strip()}
    if not any(names.values()):
        raise UserError("Name what to mute: --host, --device or --datastore.")
    reason = " ".join(reason.split())
    if not reason:
        raise UserError("--reason is empty; a few words tell others why it is silent.")
    muted_at = datetime.now(UTC)
    expires_at = muted_at + _length(how_long)
    settings = load_settings()
    reader = as_user(settings, "reader")
    names["host"] = _own_name(reader, names["host"])
    mute_id = str(uuid4())
    row = {"mute_id": mute_id, **names, "reason": reason, "muted_by": _user()}
    times = {"muted_at": _stored(muted_at), "expires_at": _stored(expires_at)}
    _insert(settings, "mutes_stored", row | times)
    _say(
        f"muted: {_names(names.values())} until {expires_at:%F %T} UTC;"
        f" lift it: stunwatch incident unmute {mute_id[:SHORT]}"
    )
    for kind, name in names.items():
        if name and not _is_known(reader, kind, name):
            _say(f"Nothing was heard of {kind} {name} yet: is it spelled as in `incident show`?")


@incident.command()
def unmute(mute_id: Annotated[str, typer.Argument(help="As `incident list` shows it.")]) -> None:
    """Lift a mute before it expires. What it held back and is still open is told.

    Example:

        stunwatch incident unmute 0b6f3f0e
    """
    settings = load_settings()
    found = _one(
        as_user(settings, "reader"),
        "SELECT toString(mute_id) AS id, host, device, datastore, reason, muted_by, muted_at,"
        " expires_at, lifted_at, is_active FROM mutes",
        mute_id,
        "mute",
    )
    names = _names(found[kind] for kind in ("host", "device", "datastore"))
    if not found.pop("is_active"):
        how = "lifted" if found["lifted_at"] else "expired"
        raise UserError(f"The mute of {names} is over: it has {how} already.")
    lifted = {"lifted_at": _stored(datetime.now(UTC)), "lifted_by": _user()}
    _insert(settings, "mutes_stored", {"mute_id": found.pop("id"), **found, **lifted})
    _say(f"no longer muted: {names}")


def shown_mutes(reader: ClickHouse) -> list[str]:
    """A sentence for every mute that is active, the one that expires first before the others."""
    rows = reader.rows(
        "SELECT toString(mute_id), host, device, datastore, reason, muted_by,"
        " formatDateTime(expires_at, '%F %T') FROM mutes WHERE is_active"
        " ORDER BY expires_at, mute_id"
    )
    return [
        f"muted: {_names(names)} until {until} UTC by {by}: {reason} (mute {mute_id[:SHORT]})"
        for mute_id, *names, reason, by, until in rows
    ]


def _judge(incident_id: str, kind: str, note: str) -> None:
    settings = load_settings()
    reader = as_user(settings, "reader")
    found = _find(reader, incident_id)
    _mark(settings, found, kind, note)
    _say(f"judged {kind}: {_short(found)}, {found['verdict']}")
    [(rights, wrongs)] = reader.rows(
        "SELECT right_count, wrong_count FROM verdict_scores"
        " WHERE scope = {scope:String} AND confidence = {confidence:String}",
        {each: found[each] for each in ("scope", "confidence")},
    )
    _say(
        f"verdicts with scope {found['scope']} and {found['confidence']} confidence:"
        f" {rights:,} right, {wrongs:,} wrong; all: stunwatch sql"
        ' "SELECT * FROM verdict_scores"'
    )


def _mark(settings: Settings, found: dict[str, Any], kind: str, note: str) -> None:
    judged = {each: found[each] for each in ("scope", "confidence", "verdict")}
    said = {"kind": kind, "marked_by": _user(), "note": " ".join(note.split())}
    _insert(settings, "incident_marks_stored", {"incident_id": found["id"], **said, **judged})


def _find(reader: ClickHouse, prefix: str) -> dict[str, Any]:
    """The incident that a user means. Raises UserError where none or several are."""
    return _one(reader, f"SELECT {LISTED} FROM incidents", prefix, "incident")


def _one(reader: ClickHouse, query: str, prefix: str, kind: str) -> dict[str, Any]:
    """The only row whose column `id` begins so. Raises UserError where none or several do."""
    wanted = prefix.strip().lower()
    if not re.fullmatch(r"[0-9a-f-]{4,36}", wanted):
        raise UserError(
            f"{prefix!r} is no {kind}'s id; give the first four or more characters of one that"
            " `stunwatch incident list` shows."
        )
    found = reader.named_rows(
        f"SELECT * FROM ({query}) WHERE startsWith(id, {{wanted:String}})",
        {"wanted": wanted},
    )
    if not found:
        raise UserError(f"There is no {kind} {wanted}; `stunwatch incident list` shows them.")
    if len(found) > 1:
        ids = ", ".join(sorted(each["id"] for each in found)[:5])
        raise UserError(f"{wanted} begins {len(found):,} ids, give more of it: {ids}.")
    return found[0]


def _said(reader: ClickHouse) -> dict[str, list[str]]:
    """By incident_id: a few words for the acknowledgement and the judgement that count."""
    found: dict[str, list[str]] = {}
    for incident_id, kind, by in reader.rows(
        "SELECT toString(incident_id), kind, marked_by FROM incident_marks WHERE is_last"
        " ORDER BY kind"
    ):
        word = "acknowledged" if kind == "ack" else f"judged {kind}"
        found.setdefault(incident_id, []).append(f"{word} by {by}")
    return found


def _history(reader: ClickHouse, incident_id: str) -> list[str]:
    """Everything that was said of an incident, in order."""
    rows = reader.rows(
        "SELECT formatDateTime(marked_at, '%F %T'), kind, marked_by, note FROM incident_marks"
        " WHERE incident_id = {id:UUID} ORDER BY marked_at",
        {"id": incident_id},
    )
    return [f"{at} UTC  {kind} by {by}{f': {note}' if note else ''}" for at, kind, by, note in rows]


def _own_name(reader: ClickHouse, host: str) -> str:
    """The name that is shown of a host; its own where no other is known."""
    rows = reader.rows(
        "SELECT host FROM host_aliases WHERE lower(alias) = lower({host:String}) AND alias != ''"
        " ORDER BY observed_at DESC LIMIT 1",
        {"host": host},
    )
    return str(rows[0][0]) if rows else host


def _is_known(reader: ClickHouse, kind: str, name: str) -> bool:
    """Whether an incident or the inventory, or a line's owner, goes by this name."""
    owners = (
        f"UNION ALL SELECT toString({kind}) FROM owners_seen_stored" if kind != "device" else ""
    )
    query = (
        f"SELECT count() FROM (SELECT arrayJoin({kind}s) AS name FROM incidents"
        f" UNION ALL SELECT toString({kind}) FROM inventory {owners})"
        " WHERE startsWith(concat(lower(name), '.'), concat(lower({name:String}), '.'))"
    )
    return bool(reader.rows(query, {"name": name})[0][0])


def _length(text: str) -> timedelta:
    """4h, 30m, 2d, 1d12h. Raises UserError for what is none, nothing or too long."""
    found = re.fullmatch(r"(?:(\d{1,4})d)?(?:(\d{1,4})h)?(?:(\d{1,5})m)?", text.strip().lower())
    if not found or not any(found.groups()):
        raise UserError(f"--for {text} is no length of time; 30m, 4h, 2d and 1d12h are.")
    days, hours, minutes = (int(each or 0) for each in found.groups())
    length = timedelta(days=days, hours=hours, minutes=minutes)
    if not length:
        raise UserError(f"--for {text} would end at once.")
    if length > LONGEST_MUTE:
        raise UserError(
            f"--for {text} is too long: a mute ends after {LONGEST_MUTE.days} days at most, so"
            " that none is forgotten."
        )
    return length


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need have no name
        return str(os.getuid())


def _names(names: Any) -> str:
    return ", ".join(each for each in names if each)


def _short(found: dict[str, Any]) -> str:
    return str(found["id"])[:SHORT]


def _stored(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def _insert(settings: Settings, table: str, row: dict[str, Any]) -> None:
    text = orjson.dumps(row).decode()
    as_user(settings, "ingest").command(f"INSERT INTO {table} FORMAT JSONEachRow {text}")


def _say(text: str) -> None:
    Console(stderr=True, highlight=False).print(printable(text), markup=False, soft_wrap=True)


def _print(console: Console, text: str) -> None:
    # What stands in logs must not steer the terminal.
    console.print(printable(text), markup=False, soft_wrap=True)


def _print_list(console: Console, title: str, lines: list[str]) -> None:
    if lines:
        _print(console, "")
        _print(console, f"{title}:")
        for line in lines:
            _print(console, f"  {line}")


def _print_steps(console: Console, steps: list[dict[str, Any]]) -> None:
    if not steps:
        return
    _print(console, "")
    _print(console, "Do next:")
    for number, each in enumerate(steps, 1):
        article = f" [KB {each['kb']}]" if each["kb"] else ""
        _print(console, f"  {number}. {each['step']}{article}")
        if each["because"]:
            _print(console, f"     because {each['because']}")
        if each["against"]:
            _print(console, f"     against it: {each['against']}")
