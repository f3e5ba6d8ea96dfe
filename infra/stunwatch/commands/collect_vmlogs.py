"""`stunwatch collect vmlogs`: the VMs' own logs, read on their datastores."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from stunwatch.errors import UserError


def vmlogs(
    cluster: Annotated[
        list[str] | None, typer.Option(help="Only VMs of this cluster; may be given again.")
    ] = None,
    datastore: Annotated[
        list[str] | None, typer.Option(help="Only VMs whose log lies on this datastore.")
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="Only VMs with this custom attribute: 'backup=nightly'."),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(help="Only VMs with this tag, named with its category.")
    ] = None,
    sweep: Annotated[
        float,
        typer.Option(min=1, help="Every log is visited so often, in seconds; sooner after a task."),
    ] = 300.0,
    host_rate: Annotated[
        float, typer.Option(min=0.1, help="Requests a second for the files of one host's VMs.")
    ] = 5.0,
    datastore_rate: Annotated[
        float, typer.Option(min=0.1, help="Requests a second for the files of one datastore.")
    ] = 20.0,
    once: Annotated[
        bool, typer.Option("--once", help="End when every log has been read to its end.")
    ] = False,
) -> None:
    """Follow the vmware.log of every VM, and ship its lines to Kafka as they are written.

    Only what is new is read. A log is visited when a snapshot, a migration or another task touches
    its VM, and in a slow sweep. It runs until it is stopped; where it was, it goes on after. Start
    it on several machines and they share the datastores among themselves.

    The role needs Datastore.Browse and Datastore.FileManagement besides read-only: that is what
    vCenter asks of those who read files. Nothing is ever written.

    Examples:

        stunwatch collect vmlogs

        stunwatch collect vmlogs --cluster gold --cluster silver --host-rate 2

        stunwatch collect vmlogs --tag backup/nightly
    """
    from ingest.vcenter.fleet import Selection  # noqa: PLC0415 (slow to import)
    from stunwatch.collecting import vmlogs as collecting  # noqa: PLC0415
    from stunwatch.collecting.service import serve  # noqa: PLC0415
    from stunwatch.collecting.visits import Limits  # noqa: PLC0415

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
        raise UserError(f"--attribute is {text!r}: it must be a name and a value, backup=nightly.")
    return name, value
