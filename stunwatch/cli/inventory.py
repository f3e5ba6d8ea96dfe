"""`stunwatch inventory`: loads LUNs, datastores and names from the output of esxcli."""

from __future__ import annotations

import secrets
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from stunwatch.access import kafka_access
from stunwatch.consumers import wait_until_read
from stunwatch.detectors.catalogue import INCIDENTS_TOPIC
from stunwatch.errors import UserError
from stunwatch.incidents_of_history import judge_replays
from stunwatch.ingest.records import owner_key
from stunwatch.inventory.files import Reading, Source, read
from stunwatch.inventory.items import items_of
from stunwatch.kafka import Kafka
from stunwatch.output import Format, FormatOption, print_json
from stunwatch.printable import Terminal, printable
from stunwatch.settings import load_settings
from stunwatch.shipping import Shipper
from stunwatch.times import TIME_HELP, in_zone, moment

TOPIC = "events.inventory"
EXIT_INCOMPLETE = 1
"""Some files could not be loaded."""

KINDS = ("extent", "device", "raw_device_mapping", "virtual_machine", "host_alias")

inventory = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""Load what hosts report about their storage: LUNs, datastores, path policies, names.

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
    paths: Annotated[
        list[Path], typer.Argument(help="Files, folders or vm-support bundles to load.")
    ],
    host: Annotated[
        str | None, typer.Option(help="The host's name, for files that do not contain it.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help=f"When the output was taken. Default: each file's modification time. {TIME_HELP}"
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Load the output of esxcli, and return when it is queryable.

    stunwatch finds by its content which command printed a file. One file may hold the output of
    several commands, also in esxcli's CSV and JSON forms. Loading the same files twice has no
    effect. Exit code 1 if a file could not be used. These commands are understood:
    `esxcli storage vmfs extent list`, `core device list`, `core path list`, `nmp device list`,
    `hpp device list`, `core device vaai status get`; `esxcli vm process list`, `system hostname
    get`, `system uuid get`, `network ip interface ipv4 get`; `esxcfg-scsidevs -m` of ESX 4; and
    `vmkfstools -q` of raw device mappings.

    Examples:

        stunwatch inventory load extents.txt devices.txt --host esx01

        stunwatch inventory load ./esx-esx01-2024-05-06--07.08-12345.tgz

        ssh esx01 'esxcli system hostname get; esxcli storage vmfs extent list;
        esxcli storage nmp device list' > esx01.txt
        stunwatch inventory load esx01.txt
    """
    settings = load_settings()
    console = Terminal(stderr=True, highlight=False)
    observed_at = moment(at, site=settings.site_timezone) if at else None
    if observed_at and observed_at > datetime.now(UTC):
        raise UserError(f"--at {at} is in the future. Give the time at which the output was taken.")
    with console.status("reading") as status:
        reading = read(
            paths, host, observed_at, lambda files: status.update(f"reading: {files} files")
        )
        for problem in reading.problems:
            said = printable(f"{problem.path}: {problem.sentence}")
            console.print(said, style="yellow", markup=False, soft_wrap=True)
        if not reading.sources:
            raise UserError(
                "No inventory found in these paths. `stunwatch inventory load --help` lists the"
                " supported commands of esxcli."
            )
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
        status.update("computing the incidents of replays again")
        changed = judge_replays(settings, run_id)
        if changed:
            ends = kafka.ends([INCIDENTS_TOPIC])
            wait_until_read(kafka, "clickhouse-events", ends, lambda: None)
    if output is Format.JSON:
        print_json(_as_json(reading, counts) | {"incidents_changed": changed})
    for source in reading.sources:
        commands = ", ".join(output.command for output in source.outputs)
        observed = in_zone(source.observed_at, settings.site_timezone)
        said = f"{source.host} at {observed}: {commands}"
        console.print(printable(said), markup=False, soft_wrap=True)
    console.print(
        f"Loaded {counts['extent']:,} extents, {counts['device']:,} devices,"
        f" {counts['raw_device_mapping']:,} raw device mappings, {counts['virtual_machine']:,} VMs,"
        f" {counts['host_alias']:,} names of hosts.",
        soft_wrap=True,
    )
    if changed:
        console.print(
            f"Changed {changed:,} incidents of replays. See them: stunwatch incident list --all",
            soft_wrap=True,
        )
    if reading.problems:
        raise typer.Exit(EXIT_INCOMPLETE)


def _as_json(reading: Reading, counts: Counter[str]) -> dict[str, Any]:
    return {
        "sources": [
            {
                "host": source.host,
                "observed_at": f"{source.observed_at.astimezone(UTC):%FT%TZ}",
                "commands": [each.command for each in source.outputs],
            }
            for source in reading.sources
        ],
        "items": {kind: counts[kind] for kind in KINDS},
        "problems": [
            {"path": str(each.path), "problem": each.sentence} for each in reading.problems
        ],
    }


def _items(source: Source, run_id: str) -> list[dict[str, Any]]:
    at_us = int(source.observed_at.timestamp()) * 1_000_000 + source.observed_at.microsecond
    return list(items_of(source.outputs, source.host, at_us, run_id, source.given_name))
