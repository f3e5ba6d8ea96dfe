"""`stunwatch alerts`: checks and tests the receivers, and runs the alert service."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stunwatch.alerts.configuration import SCOPES, Configuration, Receiver, load
from stunwatch.alerts.messages import Message
from stunwatch.cli.incident import active_mutes, shown_mutes
from stunwatch.clickhouse import as_user
from stunwatch.errors import UserError, did_you_mean
from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import Terminal, printable
from stunwatch.settings import Settings, load_settings

EXIT_NOT_ACCEPTED = 1

alerts = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""Send alerts about incidents: webhooks, mail, chats, Prometheus Alertmanager.

    The file infra/alerts/alerts.yaml lists the receivers. If it lists any, `stunwatch up` starts
    the alert service.

    Examples:

        stunwatch alerts check

        stunwatch alerts test on_call
    """,
)


@alerts.callback()
def _group() -> None:
    pass


@alerts.command()
def check(output: FormatOption = Format.TABLE) -> None:
    """Check alerts.yaml; show its receivers, without secrets, and the active silences.

    Examples:

        stunwatch alerts check

        stunwatch alerts check --format json
    """
    from stunwatch.alerts.sending import why_no_receiver  # noqa: PLC0415 (slow to import)

    settings = load_settings()
    configuration = load(settings)
    console = Terminal()
    if output is Format.JSON:
        print_json(_as_json(settings, configuration))
    elif not configuration.receivers:
        console.print(
            f"No alerts are sent: {settings.alerts} defines no receiver. Add one and run"
            " `stunwatch up`.",
            highlight=False,
            soft_wrap=True,
        )
    else:
        _print(settings, configuration, console)
    for each in configuration.receivers:
        if problem := why_no_receiver(each):
            raise UserError(
                f"The receiver {each.name} ({each.shown_url}) is not usable: {problem}."
            )


def _print(settings: Settings, configuration: Configuration, console: Console) -> None:
    console.print(_receivers(configuration))
    if quiet := configuration.quiet_hours:
        console.print(
            f"Quiet hours from {quiet.start:%H:%M} to {quiet.end:%H:%M} {quiet.zone.key}:"
            f" {' and '.join(quiet.hold)} alerts wait until they end; critical alerts do not.",
            highlight=False,
        )
    _print_mutes(settings, console)


def _as_json(settings: Settings, configuration: Configuration) -> dict[str, Any]:
    try:
        mutes: list[dict[str, Any]] | None = active_mutes(as_user(settings, "analyst"))
    except UserError:
        mutes = None  # unknown, because ClickHouse does not answer
    quiet = configuration.quiet_hours
    return {
        "file": str(settings.alerts),
        "receivers": [
            {
                "name": each.name,
                "kind": each.kind,
                "url": each.shown_url,
                "severities": list(each.severities),
                "scopes": list(each.scopes),
                "changes": list(each.changes),
                "is_quiet_at_night": each.is_quiet_at_night,
            }
            for each in configuration.receivers
        ],
        "quiet_hours": {
            "start": f"{quiet.start:%H:%M}",
            "end": f"{quiet.end:%H:%M}",
            "zone": quiet.zone.key,
            "hold": list(quiet.hold),
        }
        if quiet
        else None,
        "mutes": mutes,
    }


@alerts.command()
def test(
    name: Annotated[
        str | None, typer.Argument(help="The receiver to test. Default: all receivers.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send a test message to the receivers and show which of them accepted it.

    Exit code 1 if any receiver did not accept it.

    Examples:

        stunwatch alerts test

        stunwatch alerts test on_call
    """
    from stunwatch.alerts.sending import send  # noqa: PLC0415 (slow to import)

    settings = load_settings()
    configuration = load(settings)
    receivers = [each for each in configuration.receivers if name in (None, each.name)]
    if not receivers:
        known = [each.name for each in configuration.receivers]
        if not known:
            raise UserError(f"{settings.alerts} defines no receiver. Add one, then test again.")
        raise UserError(
            f"There is no receiver {name}.{did_you_mean(name or '', known)}"
            f" {settings.alerts} defines: {', '.join(known)}."
        )
    console = Terminal()
    problems = {}
    for each in receivers:
        problem = problems[each.name] = send(each, _test_message())
        if output is Format.TABLE:
            outcome = (problem, "red") if problem else ("accepted", "green")
            console.print(Text.assemble(f"{each.name}: ", outcome), soft_wrap=True)
    if output is Format.JSON:
        print_json(
            [
                {"receiver": receiver, "is_accepted": not problem, "problem": problem or ""}
                for receiver, problem in problems.items()
            ]
        )
    if any(problems.values()):
        raise typer.Exit(EXIT_NOT_ACCEPTED)


@alerts.command()
def run() -> None:
    """Run the alert service in the foreground until Ctrl-C; `up` runs it in the background.

    Example:

        stunwatch alerts run
    """
    from stunwatch.alerts import service  # noqa: PLC0415 (slow to import)

    settings = load_settings()
    settings.make_folders()
    service.run(settings)


def _receivers(configuration: Configuration) -> Table:
    table = Table("receiver", "kind", "where", "severities", "scopes", "changes", "quiet hours")
    for each in configuration.receivers:
        table.add_row(
            each.name,
            each.kind,
            each.shown_url,
            ", ".join(each.severities),
            "any" if each.scopes == SCOPES else ", ".join(each.scopes),
            ", ".join(each.changes),
            _quiet(configuration, each),
        )
    return table


def _print_mutes(settings: Settings, console: Console) -> None:
    try:
        reader = as_user(settings, "analyst")
        lines = shown_mutes(reader, settings.site_timezone) or ["No silences."]
    except UserError as error:
        lines = [f"Cannot read silences: {error}"]
    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _quiet(configuration: Configuration, receiver: Receiver) -> str:
    if not receiver.is_quiet_at_night:
        return "no"
    return "yes" if configuration.quiet_hours else "yes, but none are defined"


def _test_message() -> Message:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Message(
        title="[notice] Test message from stunwatch",
        body="This is a test. You receive alerts about incidents; there is no incident.",
        change="closed",
        severity="notice",
        incident_id="00000000-0000-0000-0000-000000000000",
        scope="vm",
        opened_at=now,
        ended_at=now,
        severity_before="",
        report="stunwatch status",
    )
