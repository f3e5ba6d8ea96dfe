"""`stunwatch collect vmlogs`: reads the logs of VMs from their datastores."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from stunwatch.errors import UserError


def vmlogs(
    cluster: Annotated[
        list[str] | None, typer.Option(help="Only VMs of this cluster. Repeat it for several.")
    ] = None,
    datastore: Annotated[
        list[str] | None,
        typer.Option(help="Only VMs whose log is on this datastore. Repeat it for several."),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            help="Only VMs with this custom attribute: backup=nightly. Repeat it for several."
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Only VMs with this tag: category/tag. Repeat it for several."),
    ] = None,
    sweep: Annotated[
        float,
        typer.Option(min=1, help="Check every log after this many seconds; sooner after a task."),
    ] = 300.0,
    host_rate: Annotated[
        float, typer.Option(min=0.1, help="Requests per second for the VMs of one host, at most.")
    ] = 5.0,
    datastore_rate: Annotated[
        float, typer.Option(min=0.1, help="Requests per second for one datastore, at most.")
    ] = 20.0,
    once: Annotated[
        bool, typer.Option("--once", help="Exit after every log was read to its end.")
    ] = False,
) -> None:
    """Follow the vmware.log of every VM, and send new lines to Kafka.

    A log is read after a snapshot, a migration or another task of its VM, and otherwise every
    --sweep seconds. The command runs until you stop it; started again, it continues where it
    stopped. If it runs on several machines, they share the datastores.

    The vCenter role needs Read-only, Datastore.Browse and Datastore.FileManagement; reading files
    requires them. Nothing is written. Settings: `stunwatch collect --help`.

    Examples:

        stunwatch collect vmlogs

        stunwatch collect vmlogs --cluster gold --cluster silver --host-rate 2

        stunwatch collect vmlogs --tag backup/nightly
    """
    from stunwatch.ingest.vcenter.collectors import vmlogs as collecting  # noqa: PLC0415
    from stunwatch.ingest.vcenter.collectors.polls import Limits  # noqa: PLC0415
    from stunwatch.ingest.vcenter.collectors.service import serve  # noqa: PLC0415
    from stunwatch.ingest.vcenter.fleet import Selection  # noqa: PLC0415 (slow to import)

    selection = Selection(
        frozenset(cluster or ()),
        frozenset(datastore or ()),
        frozenset(map(_attribute, attribute or ())),
        frozenset(tag or ()),
    )
    limits = Limits(host_rate, datastore_rate, sweep)
    serve("vmlogs", partial(collecting.run, selection, limits), is_once=once)


def _attribute(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UserError(
            f"--attribute is {text!r}. Write it as NAME=VALUE, for example backup=nightly."
        )
    return name, value
