"""`stunwatch incident`: lists, acknowledges, judges and mutes incidents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any

import typer
from rich.console import Console

from stunwatch.alerts.marks import read_marks
from stunwatch.alerts.messages import has_risk
from stunwatch.cli.completing import incident_ids
from stunwatch.clickhouse import ClickHouse, as_user
from stunwatch.errors import UserError
from stunwatch.incident_marks import insert, milliseconds, note_mute, user
from stunwatch.known_names import why_unknown
from stunwatch.output import SEVERITY_STYLES, Format, FormatOption, print_json
from stunwatch.printable import Terminal, printable
from stunwatch.settings import Settings, load_settings
from stunwatch.short_ids import SHORT, the_one
from stunwatch.times import in_zone, length, stored

LONGEST_MUTE = timedelta(days=30)

LISTED = (
    "toString(incident_id) AS id, state, scope, severity, verdict, confidence,"
    " formatDateTime(opened_at, '%FT%TZ') AS began,"
    " ifNull(formatDateTime(closed_at, '%FT%TZ'), '') AS ended,"
    " hosts, devices, paths, datastores, vms, reporting_hosts, missing, next_steps, evidence,"
    " run_id"
)

IncidentId = Annotated[
    str,
    typer.Argument(
        help="The id that `incident list` shows; its first characters are enough.",
        autocompletion=incident_ids,
    ),
]

incident = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""List incidents, acknowledge them, judge their verdicts, mute alerts.

    An id may be cut to its first characters, as long as only one incident begins with them.

    Examples:

        stunwatch incident list

        stunwatch incident show 1f0e9c2a

        stunwatch incident ack 1f0e9c2a --note "vendor of the array informed"

        stunwatch incident mute --datastore ds-gold --for 4h --reason firmware

        stunwatch incident wrong 1f0e9c2a --note "it was the backup"
    """,
)


@incident.callback()
def _group() -> None:
    pass


@incident.command("list")
def list_incidents(
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Include incidents that ended more than a day ago.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """List incidents, open ones first, and active silences.

    Examples:

        stunwatch incident list

        stunwatch incident list --all --format json
    """
    settings = load_settings()
    reader = as_user(settings, "analyst")
    recent = "closed_at IS NULL OR closed_at > now() - INTERVAL 1 DAY"
    rows = reader.named_rows(
        f"SELECT {LISTED} FROM incidents WHERE {'true' if all_of_them else recent}"
        " ORDER BY indexOf(['open', 'noted', 'closed'], state), opened_at DESC, id",
    )
    marks, now = read_marks(settings), datetime.now(UTC)
    said = _said(reader)
    if output is Format.JSON:
        listed = [
            _as_json(each, marks.muted_until(each, now) if each["state"] == "open" else None)
            | {"notes": said.get(each["id"], [])}
            for each in rows
        ]
        print_json({"incidents": listed, "mutes": active_mutes(reader)})
        return
    console = Terminal(highlight=False)
    site = settings.site_timezone
    for each in rows:
        notes = list(said.get(each["id"], ()))
        muted_until = marks.muted_until(each, now) if each["state"] == "open" else None
        if muted_until:
            notes.append(f"muted until {_from_epoch(muted_until, site)}")
        since = in_zone(stored(each["began"]), site)
        until = f"until {in_zone(stored(each['ended']), site)}" if each["ended"] else ""
        console.print(
            f"{each['id'][:SHORT]}  {each['state']:6}  {each['severity']:8} "
            f" {each['scope']:15}  since {since}  {until:32}  {'; '.join(notes)}".rstrip(),
            style=SEVERITY_STYLES.get(each["severity"], "") if each["state"] == "open" else "dim",
            markup=False,
            soft_wrap=True,
        )
        _print(console, f"{'':{SHORT}}  {each['verdict']}")
    if not rows:
        count = reader.rows("SELECT count() FROM incidents")[0][0]
        older = f" Older ones: {count:,}; list them: `stunwatch incident list --all`."
        _print(console, f"No incidents in the last day.{older}" if count else "No incidents.")
    for line in shown_mutes(reader, site):
        _print(console, line)


@incident.command()
def show(incident_id: IncidentId, output: FormatOption = Format.TABLE) -> None:
    """Show one incident: verdict, next steps, affected objects, the log lines that prove it.

    Examples:

        stunwatch incident show 1f0e9c2a

        stunwatch incident show 1f0e9c2a --format json
    """
    settings = load_settings()
    reader = as_user(settings, "analyst")
    found = _find(reader, incident_id)
    muted_until = (
        read_marks(settings).muted_until(found, datetime.now(UTC))
        if found["state"] == "open"
        else None
    )
    if output is Format.JSON:
        print_json(_as_json(found, muted_until) | {"notes": _history(reader, found["id"], UTC)})
        return
    console = Terminal(highlight=False)
    site = settings.site_timezone
    since = in_zone(stored(found["began"]), site)
    until = f" until {in_zone(stored(found['ended']), site)}" if found["ended"] else ""
    console.print(
        f"{found['state']}, {found['severity']}, since {since}{until}",
        style=SEVERITY_STYLES.get(found["severity"], ""),
        soft_wrap=True,
    )
    _print(console, found["verdict"])
    _print(console, "")
    silent = max(0, found["reporting_hosts"] - len(found["hosts"]))
    _print(console, f"Scope: {found['scope']}; confidence: {found['confidence']}.")
    hosts = "host" if found["reporting_hosts"] == 1 else "hosts"
    _print(
        console,
        f"{found['reporting_hosts']:,} {hosts} sent logs; {silent:,} unaffected.",
    )
    for kind in ("hosts", "devices", "paths", "datastores", "vms"):
        if found[kind]:
            label = "VMs" if kind == "vms" else kind.capitalize()
            _print(console, f"{label}: {', '.join(found[kind])}")
    _print_list(console, "Missing data", found["missing"])
    _print_steps(console, found["next_steps"])
    _print_list(console, "Log lines", found["evidence"])
    _print_list(console, "Notes", _history(reader, found["id"], site))
    if muted_until:
        _print(console, "")
        _print(console, f"Muted until {_from_epoch(muted_until, site)}.")
    _print(console, "")
    _print(console, f"{found['id']}, found by run: {found['run_id']}")


def _as_json(found: dict[str, Any], muted_until: float | None) -> dict[str, Any]:
    """Return an incident by the view's column names, with times in ISO 8601."""
    rest = {name: each for name, each in found.items() if name not in ("id", "began", "ended")}
    return {
        "incident_id": found["id"],
        "opened_at": found["began"],
        "closed_at": found["ended"] or None,
        **rest,
        "muted_until": f"{datetime.fromtimestamp(muted_until, UTC):%FT%TZ}"
        if muted_until
        else None,
    }


def _from_epoch(seconds: float, site: tzinfo) -> str:
    return in_zone(datetime.fromtimestamp(seconds, UTC), site)


@incident.command()
def ack(
    incident_id: IncidentId,
    note: Annotated[str, typer.Option(help="A note for others.")] = "",
) -> None:
    """Acknowledge an incident: no more alerts, unless it becomes critical or closes.

    Example:

        stunwatch incident ack 1f0e9c2a --note "vendor of the array informed"
    """
    settings = load_settings()
    found = _find(as_user(settings, "analyst"), incident_id)
    if found["state"] == "closed":
        raise UserError(
            f"Incident {_short(found)} closed at"
            f" {in_zone(stored(found['ended']), settings.site_timezone)}; nothing to acknowledge."
        )
    _mark(settings, found, "ack", note)
    _say(f"acknowledged: {_short(found)}, {found['verdict']}")


@incident.command()
def right(
    incident_id: IncidentId,
    note: Annotated[str, typer.Option(help="What the cause was.")] = "",
) -> None:
    """Record that the verdict was right. The last judgement counts.

    Example:

        stunwatch incident right 1f0e9c2a
    """
    _judge(incident_id, "right", note)


@incident.command()
def wrong(
    incident_id: IncidentId,
    note: Annotated[str, typer.Option(help="What the cause was.")] = "",
) -> None:
    """Record that the verdict was wrong. The last judgement counts.

    Example:

        stunwatch incident wrong 1f0e9c2a --note "it was the backup job"
    """
    _judge(incident_id, "wrong", note)


@incident.command()
def mute(
    how_long: Annotated[
        str, typer.Option("--for", help="How long: 30m, 4h, 2d or 1d12h; 30 days at most.")
    ],
    reason: Annotated[str, typer.Option(help="Why; `incident list` shows it to others.")],
    host: Annotated[str, typer.Option(help="Mute incidents of this host.")] = "",
    device: Annotated[
        str, typer.Option(help="Mute incidents of this LUN, for example naa.6000c29f.")
    ] = "",
    datastore: Annotated[str, typer.Option(help="Mute incidents of this datastore.")] = "",
) -> None:
    """Suppress alerts for a host, LUN or datastore for a while.

    If you name several, each of them is muted. An incident is suppressed only if everything it
    affects is muted: its host, its LUNs or its datastores; for an array, every LUN. When the mute
    expires, alerts are sent for incidents that are still open.

    Examples:

        stunwatch incident mute --datastore ds-gold --for 4h --reason firmware

        stunwatch incident mute --host esx07 --for 1d --reason "new HBA"
    """
    names = {"host": host.strip(), "device": device.strip(), "datastore": datastore.strip()}
    if not any(names.values()):
        raise UserError("Name what to mute: add --host, --device or --datastore.")
    reason = " ".join(reason.split())
    if not reason:
        raise UserError("--reason is empty. Say in a few words why you mute.")
    length = _length(how_long)
    settings = load_settings()
    reader = as_user(settings, "analyst")
    names["host"] = _own_name(reader, names["host"])
    mute_id, expires_at = note_mute(settings, names, length, reason)
    _say(
        f"muted: {_names(names.values())} until {in_zone(expires_at, settings.site_timezone)};"
        f" lift it: stunwatch incident unmute {mute_id[:SHORT]}"
    )
    for kind, name in names.items():
        if name and (unknown := why_unknown(reader, kind, name)):
            _say(f"Warning: {unknown} The mute suppresses nothing until something has this name.")


@incident.command()
def unmute(
    mute_id: Annotated[
        str,
        typer.Argument(help="The id that `incident list` shows; its first characters are enough."),
    ],
) -> None:
    """Lift a mute before it expires. Alerts are sent for incidents that are still open.

    Example:

        stunwatch incident unmute 0b6f3f0e
    """
    settings = load_settings()
    found = the_one(
        as_user(settings, "analyst"),
        "SELECT toString(mute_id) AS id, host, device, datastore, reason, muted_by, muted_at,"
        " expires_at, lifted_at, is_active FROM mutes",
        mute_id,
        "mute",
        "stunwatch incident list",
    )
    names = _names(found[kind] for kind in ("host", "device", "datastore"))
    if not found.pop("is_active"):
        how = "lifted" if found["lifted_at"] else "ended by its time limit"
        raise UserError(f"The mute of {names} is no longer active: it was {how}.")
    lifted = {"lifted_at": milliseconds(datetime.now(UTC)), "lifted_by": user()}
    insert(settings, "mutes_stored", {"mute_id": found.pop("id"), **found, **lifted})
    _say(f"no longer muted: {names}")


def active_mutes(reader: ClickHouse) -> list[dict[str, Any]]:
    """Return all active mutes, in the order of their expiry."""
    return reader.named_rows(
        "SELECT toString(mute_id) AS mute_id, host, device, datastore, reason, muted_by,"
        " formatDateTime(expires_at, '%FT%TZ') AS expires_at FROM mutes WHERE is_active"
        " ORDER BY mutes.expires_at, mutes.mute_id"
    )


def shown_mutes(reader: ClickHouse, site: tzinfo) -> list[str]:
    """Return one line per active mute; times are in the site's time zone."""
    return [
        f"muted: {_names((each['host'], each['device'], each['datastore']))}"
        f" until {in_zone(stored(each['expires_at']), site)}"
        f" by {each['muted_by']}: {each['reason']} (mute {each['mute_id'][:SHORT]})"
        for each in active_mutes(reader)
    ]


def _judge(incident_id: str, kind: str, note: str) -> None:
    settings = load_settings()
    reader = as_user(settings, "analyst")
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
    said = {"kind": kind, "marked_by": user(), "note": " ".join(note.split())}
    insert(settings, "incident_marks_stored", {"incident_id": found["id"], **said, **judged})


def _find(reader: ClickHouse, prefix: str) -> dict[str, Any]:
    """Return the incident with this id prefix. Raises UserError if none or several match."""
    query = f"SELECT {LISTED} FROM incidents"
    return the_one(reader, query, prefix, "incident", "stunwatch incident list --all")


def _said(reader: ClickHouse) -> dict[str, list[str]]:
    """Return the last acknowledgement and judgement in a few words, by incident_id."""
    found: dict[str, list[str]] = {}
    for incident_id, kind, by in reader.rows(
        "SELECT toString(incident_id), kind, marked_by FROM incident_marks WHERE is_last"
        " ORDER BY kind"
    ):
        word = "acknowledged" if kind == "ack" else f"judged {kind}"
        found.setdefault(incident_id, []).append(f"{word} by {by}")
    return found


def _history(reader: ClickHouse, incident_id: str, zone: tzinfo) -> list[str]:
    """Return an incident's acknowledgements and judgements, oldest first; times in this zone."""
    rows = reader.rows(
        "SELECT formatDateTime(marked_at, '%FT%TZ'), kind, marked_by, note FROM incident_marks"
        " WHERE incident_id = {id:UUID} ORDER BY marked_at",
        {"id": incident_id},
    )
    return [
        f"{in_zone(stored(at), zone)}  {kind} by {by}{f': {note}' if note else ''}"
        for at, kind, by, note in rows
    ]


def _own_name(reader: ClickHouse, host: str) -> str:
    """Return the host's main name, or the given name if none is known."""
    rows = reader.rows(
        "SELECT host FROM host_aliases WHERE lower(alias) = lower({host:String}) AND alias != ''"
        " ORDER BY observed_at DESC LIMIT 1",
        {"host": host},
    )
    return str(rows[0][0]) if rows else host


def _length(text: str) -> timedelta:
    """Parse a duration above zero and at most LONGEST_MUTE. Raises UserError."""
    found = length(text)
    if found is None:
        raise UserError(f"--for {text!r} is not a duration. Use for example 30m, 4h, 2d or 1d12h.")
    if not found:
        raise UserError(f"--for {text} is zero. Use for example 30m or 4h.")
    if found > LONGEST_MUTE:
        raise UserError(
            f"--for {text} is too long. A mute lasts {LONGEST_MUTE.days} days at most; mute again"
            " when it expires."
        )
    return found


def _names(names: Any) -> str:
    return ", ".join(each for each in names if each)


def _short(found: dict[str, Any]) -> str:
    return str(found["id"])[:SHORT]


def _say(text: str) -> None:
    Terminal(stderr=True, highlight=False).print(printable(text), markup=False, soft_wrap=True)


def _print(console: Console, text: str) -> None:
    # Text from logs must not control the terminal.
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
        if has_risk(each):
            _print(console, f"     first make sure: {each['precondition']}")
            _print(console, f"     risk ({each['risk_level']}): {each['risk']}")
