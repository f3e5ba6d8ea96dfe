"""`stunwatch collect`: collects data that only vCenter has. Access is read-only."""

from __future__ import annotations

import typer

from stunwatch.cli.collect_inventory import inventory
from stunwatch.cli.collect_latency import latency
from stunwatch.cli.collect_vmlogs import vmlogs

collect = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""Collect VM logs, latency and inventory from vCenter. Access is read-only.

    Environment variables name the vCenter and the user: STUNWATCH_VCENTER, STUNWATCH_VCENTER_USER
    and STUNWATCH_VCENTER_PASSWORD. Instead of the last two, STUNWATCH_VCENTER_CREDENTIALS can name
    a file of mode 600: the user on the first line, the password on the second. The certificate is
    verified: set STUNWATCH_VCENTER_CA_FILE to the certificate of its authority, or
    STUNWATCH_VCENTER_THUMBPRINT to its own SHA-256.

    Examples:

        STUNWATCH_VCENTER=vcenter.lab.example stunwatch collect vmlogs

        stunwatch collect vmlogs --cluster gold --datastore san-01
    """,
)


@collect.callback()
def _group() -> None:
    pass


collect.command()(vmlogs)
collect.command()(latency)
collect.command()(inventory)
