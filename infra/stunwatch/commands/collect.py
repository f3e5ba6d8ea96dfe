"""`stunwatch collect`: what a vCenter knows and syslog does not tell. It is only read."""

from __future__ import annotations

import typer

from stunwatch.commands.collect_inventory import inventory
from stunwatch.commands.collect_latency import latency
from stunwatch.commands.collect_vmlogs import vmlogs

collect = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""What a vCenter knows and syslog does not tell. It is only read, never written to.

    Which vCenter, and who logs in, comes from the environment: STUNWATCH_VCENTER (its name),
    STUNWATCH_VCENTER_USER and STUNWATCH_VCENTER_PASSWORD, or STUNWATCH_VCENTER_CREDENTIALS (a file
    of mode 600: the user, and on a second line the password). Its certificate is verified; name its
    authority's in STUNWATCH_VCENTER_CA_FILE, or its own SHA-256 in STUNWATCH_VCENTER_THUMBPRINT.

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
