"""`stunwatch alerts`: who is told of incidents."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stunwatch.alerts.configuration import SCOPES, Configuration, Receiver, load
from stunwatch.alerts.messages import Message
from stunwatch.clickhouse import as_user
from stunwatch.commands.incident import shown_mutes
from stunwatch.errors import UserError
from stunwatch.printable import printable
from stunwatch.settings import Settings, load_settings

EXIT_NOT_ACCEPTED = 1

alerts = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""Who is told of incidents: webhooks, mail, chats, Prometheus Alertmanager.

    One file says it, infra/alerts/alerts.yaml; `stunwatch up` starts the service where it names
    somebody.

    Examples:

        stunwatch alerts check

        stunwatch alerts test on_call
    """,
)


@alerts.callback()
def _group() -> None:
    pass


@alerts.command()
def check() -> None:
    """Show what alerts.yaml means, without its secrets, and what is muted now.

    Example:

        stunwatch alerts check
    """
    from stunwatch.alerts.sending import why_no_receiver  # noqa: PLC0415 (slow to import)

    settings = load_settings()
    configuration = load(settings)
    console = Console()
    if not configuration.receivers:
        console.print(f"Nobody is told: {settings.alerts} names no receiver.", highlight=False)
        return
    console.print(_receivers(configuration))
    if quiet := configuration.quiet_hours:
        console.print(
            f"Quiet hours from {quiet.start:%H:%M} to {quiet.end:%H:%M} {quiet.zone.key}:"
            f" {' and '.join(quiet.hold)} wait for their end, critical never does.",
            highlight=False,
        )
    _print_mutes(settings, console)
    for each in configuration.receivers:
        if problem := why_no_receiver(each):
            raise UserError(f"{each.name} ({each.shown_url}): {problem}.")


@alerts.command()
def test(
    name: Annotated[
        str | None, typer.Argument(help="A receiver; all of them where none is named.")
    ] = None,
) -> None:
    """Send a test message to every receiver and say who accepted it.

    Example:

        stunwatch alerts test
    """
    from stunwatch.alerts.sending import send  # noqa: PLC0415 (slow to import)

    configuration = load(load_settings())
    receivers = [each for each in configuration.receivers if name in (None, each.name)]
    if not receivers:
        known = ", ".join(each.name for each in configuration.receivers) or "nobody"
        raise UserError(f"There is no receiver {name or 'at all'}; alerts.yaml names: {known}.")
    console = Console()
    has_failed = False
    for each in receivers:
        problem = send(each, _test_message())
        has_failed |= bool(problem)
        outcome = f"[red]{escape(problem)}" if problem else "[green]accepted"
        console.print(f"{escape(each.name)}: {outcome}", highlight=False)
    if has_failed:
        raise typer.Exit(EXIT_NOT_ACCEPTED)


@alerts.command()
def run() -> None:
    """Serve in the foreground, until Ctrl-C. `stunwatch up` does it in the background.

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
            escape(each.name),
            each.kind,
            escape(each.shown_url),
            ", ".join(each.severities),
            "any" if each.scopes == SCOPES else ", ".join(each.scopes),
            ", ".join(each.changes),
            _quiet(configuration, each),
        )
    return table


def _print_mutes(settings: Settings, console: Console) -> None:
    try:
        lines = shown_mutes(as_user(settings, "reader")) or ["Nothing is muted."]
    except UserError as error:
        lines = [f"What is muted is not known: {error}"]
    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _quiet(configuration: Configuration, receiver: Receiver) -> str:
    if not receiver.is_quiet_at_night:
        return "no"
    return "yes" if configuration.quiet_hours else "yes, but none are set"


def _test_message() -> Message:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Message(
        title="[notice] A test message of stunwatch",
        body="If you read this, incidents reach you. Nothing has happened.",
        change="closed",
        severity="notice",
        incident_id="00000000-0000-0000-0000-000000000000",
        scope="vm",
        opened_at=now,
        ended_at=now,
        severity_before="",
        report="stunwatch status",
    )
