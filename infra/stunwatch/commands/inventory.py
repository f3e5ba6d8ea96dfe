"""`stunwatch inventory`: what hosts say of their storage."""

from __future__ import annotations

import secrets
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from ingest.records import owner_key
from stunwatch.access import kafka_access
from stunwatch.errors import UserError
from stunwatch.history import wait_until_read
from stunwatch.inventory.files import Source, read
from stunwatch.inventory.items import items_of
from stunwatch.kafka import Kafka
from stunwatch.printable import printable
from stunwatch.settings import load_settings
from stunwatch.shipping import Shipper
from stunwatch.times import moment

TOPIC = "events.inventory"
EXIT_INCOMPLETE = 1
"""Some files could not be used."""

inventory = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""What hosts say of their storage: LUNs, datastores, path policies, names.

    Examples:

        stunwatch inventory load extents.txt --host esx01.lab.example

        stunwatch sql "SELECT host, datastore, device, path_policy FROM inventory"
    """,
)


@inventory.callback()
def _group() -> None:
    pass


@inventory.command()
def load(
    paths: Annotated[list[Path], typer.Argument(help="Files, folders, vm-support bundles.")],
    host: Annotated[
        str | None, typer.Option(help="Whose outputs they are, where they do not say it.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="When they were taken, UTC unless it names a zone: 2024-05-06T07:08."
            " Default: when each file was written.",
        ),
    ] = None,
) -> None:
    """Load what esxcli printed, and return when it is queryable.

    Which command a file is the output of is found by its content, also of several in one file, and
    in esxcli's CSV and JSON forms. The same files again change nothing. These are understood:
    `esxcli storage vmfs extent list`, `core device list`, `core path list`, `nmp device list`,
    `hpp device list`, `core device vaai status get`; `esxcli vm process list`, `system hostname
    get`, `system uuid get`, `network ip interface ipv4 get`; `esxcfg-scsidevs -m` of ESX 4; and
    `vmkfstools -q` of raw device mappings.

    Examples:

        stunwatch inventory load extents.txt devices.txt --host esx01.lab.example

        stunwatch inventory load ./esx-esx01.lab.example-2024-05-06--07.08-12345.tgz

        ssh esx01 'esxcli system hostname get; esxcli storage vmfs extent list;
        esxcli storage core device list; esxcli storage nmp device list' > esx01.txt
        stunwatch inventory load esx01.txt
    """
    settings = load_settings()
    console = Console(stderr=True, highlight=False)
    observed_at = moment(at) if at else None
    if observed_at and observed_at > datetime.now(UTC):
        raise UserError(f"--at {at} lies in the future.")
    with console.status("reading") as status:
        reading = read(
            paths, host, observed_at, lambda files: status.update(f"reading: {files} files")
        )
        for problem in reading.problems:
            said = printable(f"{problem.path}: {problem.sentence}")
            console.print(said, style="yellow", markup=False, soft_wrap=True)
        if not reading.sources:
            raise UserError("There is no inventory to load.")
        status.update("storing")
        access = kafka_access(settings, "replay")
        kafka = Kafka(access)
        shipper = Shipper(access, lambda: None)
        run_id = f"inventory-{secrets.token_hex(4)}"
        counts: Counter[str] = Counter()
        for source in reading.sources:
            items = list(_items(source, run_id))
            counts.update(item["kind"] for item in items)
            key = owner_key(source.host).encode()
            shipper.send(TOPIC, [{"key": key, "value": orjson.dumps(item)} for item in items])
        shipper.flush()
        wait_until_read(kafka, "clickhouse-events", kafka.ends([TOPIC]), lambda: None)
    for source in reading.sources:
        commands = ", ".join(output.command for output in source.outputs)
        said = f"{source.host} at {source.observed_at:%Y-%m-%d %H:%M:%S}: {commands}"
        console.print(printable(said), markup=False, soft_wrap=True)
    console.print(
        f"loaded {counts['extent']} extents, {counts['device']} descriptions of devices,"
        f" {counts['raw_device_mapping']} raw device mappings, {counts['virtual_machine']} VMs,"
        f" {counts['host_alias']} names of hosts"
    )
    if reading.problems:
        raise typer.Exit(EXIT_INCOMPLETE)


def _items(source: Source, run_id: str) -> list[dict[str, Any]]:
    at_us = int(source.observed_at.timestamp()) * 1_000_000 + source.observed_at.microsecond
    return list(items_of(source.outputs, source.host, at_us, run_id, source.given_name))
